"""The models of embeddings that `clustering` draws samples from."""
