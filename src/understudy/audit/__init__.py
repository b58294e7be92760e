"""Runs of a method on rows of one's choice, and attackers that saw them."""
