"""DP-SGD on a diffusion prior."""
