"""A package, so that a process started by a test finds it before any other called ``tests``."""
