"""The ledger: what each dataset may spend, what it has spent, and what it overlaps with."""
