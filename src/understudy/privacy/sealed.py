"""Objects that hold private values and will not give them away by accident."""

from __future__ import annotations

from typing import Any, NoReturn

from understudy.core.errors import PrivateValueError


class Sealed:
    """No printing, pickling, copying, iterating, counting or converting to an array.

    This stops accidents (a log line, a checkpoint, a debugger's habit), not an owner who reads
    their own memory.
    """

    __slots__ = ()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise PrivateValueError(
            f"{type(self).__name__} holds private values: they leave it only through "
            "Vault.release(query, stage=...)"
        )

    __reduce_ex__ = __reduce__ = __getstate__ = __copy__ = __deepcopy__ = _refuse
    __iter__ = __len__ = __getitem__ = __array__ = __contains__ = _refuse

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: private>"

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __dir__(self) -> list[str]:
        return [name for name in object.__dir__(self) if not name.startswith("_")]
