"""The folder of a run and the release in it: written, listed, signed and verified."""
