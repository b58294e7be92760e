"""How good a release is, measured against real data. Every figure here is for the owner only."""
