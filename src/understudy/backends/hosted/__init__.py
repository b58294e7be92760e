"""Models behind an OpenAI-compatible API, hosted elsewhere or served on this machine."""
