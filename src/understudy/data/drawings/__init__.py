"""Drawn public images: families of drawings, each of the kind that many domains have."""
