"""The photo autoencoder: its weights, and how they are opened."""
