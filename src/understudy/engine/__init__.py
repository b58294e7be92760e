"""Where a map over private blocks runs."""
