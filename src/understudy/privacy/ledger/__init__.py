"""The ledger: what each dataset may spend, what it has spent, and who it overlaps with."""
