"""``embedded:energies``: low cosine coefficients and oriented energies of an image, and back."""
