"""Training of a studio: small models in the hub's formats, made from public captioned images."""
