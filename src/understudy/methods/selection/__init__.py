"""Data selection by Pontryagin's maximum principle (PrivSynth)."""
