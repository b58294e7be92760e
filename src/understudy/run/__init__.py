"""Configuration to result: the only place where implementations meet methods."""
