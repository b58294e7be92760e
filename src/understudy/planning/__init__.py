"""Before a run: what a dataset can carry, what to run on it, and what it would cost."""
