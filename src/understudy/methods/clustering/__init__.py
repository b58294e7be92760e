"""DP Gaussian mixtures over embeddings (Zhou et al.)."""
