"""Synthetic dataset alignment (PASDA)."""
