"""A published method is a package. It is handed a vault and models, and never sees a record."""
