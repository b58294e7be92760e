"""Public images that the owner names, labelled by a DP classifier of the private ones."""
