"""Arrays of PyTorch, CuPy and JAX, by the Python array API standard (https://data-apis.org/array-api).

Sums over samples are computed in the samples' library, on their device and in their type; the sums of a block are then
NumPy arrays in double precision. Dense eigenproblems of a fit to such samples are solved on the device too, in double
precision; where the device has none (JAX without ``jax_enable_x64``), by SciPy. Without the package array-api-compat,
arrays in the main memory are converted to NumPy's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

LIBRARIES = ("torch", "cupy", "jax", "jaxlib", "array_api_strict")


@dataclass(frozen=True)
class Home:
    """Where arrays live: a library's namespace, a device of it, and the type of their numbers."""

    xp: Any
    device: Any
    dtype: str  # "float64" or "float32"

    @property
    def widest(self) -> str:
        """The type of most digits that the device has: "float32" for JAX without ``jax_enable_x64``."""
        if self.xp is np:
            return "float64"
        known = self.xp.__array_namespace_info__().dtypes(device=self.device, kind="real floating")
        return "float64" if "float64" in known else "float32"

    def full_products(self) -> AbstractContextManager[Any]:
        """A context in which matrix products keep all digits of their type; JAX rounds to TF32 on a GPU."""
        if "jax" not in self.xp.__name__:
            return nullcontext()
        import jax

        return jax.default_matmul_precision("highest")

    def put(self, a: Any, dtype: str | None = None) -> Any:
        """An array of this library, on this device."""
        kind = getattr(self.xp, self.dtype if dtype is None else dtype)
        if self.xp is np:
            return np.asarray(a, dtype=kind)
        return self.xp.asarray(
            a if namespace(a) is not None else np.ascontiguousarray(a), dtype=kind, device=self.device
        )


def namespace(x: Any) -> Any:
    """The array API namespace of another library's array; None for everything that NumPy converts."""
    library = type(x).__module__.partition(".")[0]
    if library not in LIBRARIES or not hasattr(x, "shape"):
        return None
    compat = _compat()
    return None if compat is None else compat.array_namespace(x)


def home_of(x: Any) -> Home | None:
    """Where an array lives, or the first one of a list; None for NumPy's, and everything that is read block by block.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.arrays import home_of
    >>> home_of(np.ones(3)) is None
    True
    """
    if isinstance(x, (list, tuple)):
        return home_of(x[0]) if len(x) else None
    xp = namespace(x)
    if xp is None:
        return None
    return Home(xp, _compat().device(x), "float32" if x.dtype == xp.float32 else "float64")


def to_numpy(a: Any) -> np.ndarray:
    """An array of any library as NumPy's, copied from its device where needed."""
    library = type(a).__module__.partition(".")[0]
    if library == "torch" and hasattr(a, "detach"):
        return a.detach().cpu().numpy()
    return a.get() if library == "cupy" else np.asarray(a)


_SOLVERS: ContextVar[Home | None] = ContextVar("solvers", default=None)


@contextmanager
def solving_where(x: Any) -> Iterator[None]:
    """A context in which dense problems are solved where samples live, see :func:`solvers`."""
    home = home_of(x)
    token = _SOLVERS.set(home if home is not None and home.widest == "float64" else None)
    try:
        yield
    finally:
        _SOLVERS.reset(token)


def solvers() -> Home | None:
    """Where dense problems are to be solved; None: by SciPy."""
    return _SOLVERS.get()


@cache
def _compat() -> Any:
    try:
        import array_api_compat
    except ImportError:
        return None
    return array_api_compat
