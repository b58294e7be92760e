"""SpinML (sanitize): a device shares sanitised references, a server trains a small model."""
