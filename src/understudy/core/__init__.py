"""Words everyone shares: types, ports and errors. Imports NumPy and the standard library only."""
