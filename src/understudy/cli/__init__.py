"""The command line: parse, call `run`, print. No logic."""
