"""Speed and utility beside peers and papers: ``python -m benchmarks [NAME ...]``."""
