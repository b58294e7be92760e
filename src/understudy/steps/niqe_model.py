"""NIQE's pristine model, and its file."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.damaged_files import NO_HEADER, ZIP_DAMAGE
from understudy.core.errors import InputError, SourceError
from understudy.core.types import Vector

FEATURES = 36
SMALLEST_BLOCK = 16
"""At half the size it has 8 x 8 pixels: fewer do not settle a shape and two deviations."""

_PUBLISHED_BLOCK = 96
# The names BasicSR gives them. The block is ours; programs that do not know it pass over it.
_MU, _COV, _WINDOW, _BLOCK = "mu_pris_param", "cov_pris_param", "gaussian_window", "block_size"


@dataclass(frozen=True, eq=False, slots=True)
class NiqeModel:
    """A Gaussian over the features of pristine images' blocks.

    Raises:
        InputError: Arrays of another shape, not finite, or a window that is no such product.
    """

    mu: Vector  # (36,) float64, the mean
    cov: Vector  # (36, 36) float64, the covariance
    window: Vector  # (odd, odd) float64 weights of local means: a row times itself
    block: int  # pixels a side of the blocks it was fitted to, even

    def __post_init__(self) -> None:
        check_block(self.block)
        if self.mu.shape != (FEATURES,) or self.cov.shape != (FEATURES, FEATURES):
            raise InputError(
                f"a NIQE model has a mean of shape ({FEATURES},) and a covariance of shape "
                f"({FEATURES}, {FEATURES}), found {self.mu.shape} and {self.cov.shape}"
            )
        if not (np.isfinite(self.mu).all() and np.isfinite(self.cov).all()):
            raise InputError("a NIQE model holds numbers that are not finite: fit it again")
        if not np.allclose(self.cov, self.cov.T):
            raise InputError("the covariance of a NIQE model is not symmetric: fit it again")
        side = len(self.window)
        if self.window.shape != (side, side) or side % 2 == 0:
            raise InputError(f"a NIQE window is (odd, odd), found {self.window.shape}")
        if not np.allclose(np.outer(self.taps, self.taps), self.window, atol=1e-7):
            raise InputError("a NIQE window is a product of one row and itself, with a sum of 1")

    @property
    def taps(self) -> Vector:
        """The window's row: means are taken along one axis, then along the other."""
        return np.asarray(self.window.sum(axis=0))

    def save(self, path: Path) -> None:
        """Write an npz that BasicSR reads too; a file that is there is replaced whole.

        Raises:
            SourceError: It cannot be written.
        """
        half = path.with_name(path.name + ".part")
        try:
            with half.open("wb") as stream:
                np.savez(
                    stream,
                    mu_pris_param=self.mu[None],
                    cov_pris_param=self.cov,
                    gaussian_window=self.window,
                    block_size=self.block,
                )
            half.replace(path)
        except OSError as error:
            with suppress(OSError):
                half.unlink()
            raise SourceError(f"cannot be written: {error.strerror}", path) from error

    @classmethod
    def load(cls, path: Path) -> NiqeModel:
        """Read what :meth:`save` wrote, or BasicSR's ``niqe_pris_params.npz`` (block 96).

        Raises:
            SourceError: It is no such file, is damaged, or holds pickled objects.
        """
        arrays = _read(path)
        missing = [name for name in (_MU, _COV, _WINDOW) if name not in arrays]
        if missing:
            raise SourceError(
                f"is no NIQE model: it has no {', '.join(missing)}; "
                "understudy studio fit-niqe makes one",
                path,
            )
        try:
            block = int(arrays[_BLOCK].item()) if _BLOCK in arrays else _PUBLISHED_BLOCK
            mu, cov, window = (
                np.asarray(arrays[name], dtype=np.float64) for name in (_MU, _COV, _WINDOW)
            )
            return cls(mu.reshape(-1), cov, window, block)
        except (InputError, TypeError, ValueError) as error:
            raise SourceError(f"is no NIQE model: {error}", path) from error


def check_block(block: int) -> None:
    """Refuse a block that cannot be halved, or is too small to have statistics.

    Raises:
        InputError: Odd, or below 16.
    """
    if block < SMALLEST_BLOCK or block % 2:
        raise InputError(
            f"a block of NIQE is an even number of pixels from {SMALLEST_BLOCK}, found {block}"
        )


def _read(path: Path) -> dict[str, NDArray[Any]]:
    try:
        # Opened here: NumPy leaves the file open where it is a zip archive, but a damaged one.
        with path.open("rb") as stream:
            file = np.load(stream, allow_pickle=False)
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise SourceError("is a single array, not an npz file with a NIQE model", path)
            return {name: file[name] for name in file.files}
    except FileNotFoundError as error:
        raise SourceError(
            "there is no such file; understudy studio fit-niqe makes one", path
        ) from error
    except (*ZIP_DAMAGE, *NO_HEADER) as error:
        raise SourceError(f"is no npz file, or is damaged: {error}", path) from error
