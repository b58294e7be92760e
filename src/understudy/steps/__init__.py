"""Public arithmetic on released values. Nothing in here ever sees a vault."""
