"""Models behind the ports of ``core``: one file is one library or one family.

``registry`` turns a name such as ``"embedded:dct"`` into a model; ``plugin`` is all that a backend
from outside needs. A name, an option, a file or an input that is wrong is a `BackendError`, which
says what to do; a package that is missing a `MissingExtra`; a hub that does not answer a
`HubUnreachable`; a task that a generator has not an `UnsupportedTask`.
"""
