"""Events that stop at the first warning: what is said before anything is done."""

from typing import Any


class Warned(Exception):
    """Raised by the first warning, with its words."""


class FirstWarning:
    """Events that stop at the first warning."""

    def step(self, name: str, total: int | None = None, *, owner_only: bool = False) -> Any:
        return self

    def __call__(self, done: int) -> None: ...

    def finish(self) -> None: ...

    def notice(self, message: str, *, owner_only: bool = False) -> None: ...

    def warning(self, message: str) -> None:
        raise Warned(message)
