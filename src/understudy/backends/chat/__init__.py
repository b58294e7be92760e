"""Chat models that write captions: local ones and any OpenAI-compatible server."""
