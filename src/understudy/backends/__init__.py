"""Models behind the ports of ``core``: one file is one library or one family.

``registry`` turns a name such as ``"embedded:dct"`` into a model; ``plugin`` is all that a backend
from outside needs.
"""
