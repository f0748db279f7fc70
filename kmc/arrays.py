"""Arrays of PyTorch, CuPy and JAX, by the Python array API standard (https://data-apis.org/array-api).

Sums over samples are computed in the samples' library, on their device and in their type; the sums of a block are then
NumPy arrays in double precision. Dense eigenproblems of a fit to such samples are solved on the device too, in double
precision; where the device has none (JAX without ``jax_enable_x64``), by SciPy. Without the package array-api-compat,
arrays in the main memory are converted to NumPy's.
"""

from __future__ import annotations

import importlib
import sys
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


# Data frames in and out: outputs as scikit-learn's ``set_output`` asks for them, and data sets of xarray as inputs.

KINDS = ("default", "pandas", "polars")


def configured(estimator: Any) -> str:
    """What ``transform`` is to return: set for the estimator, or in scikit-learn's configuration if it is loaded."""
    own = getattr(estimator, "_sklearn_output_config", {}).get("transform")
    if own is not None:
        return own
    sklearn = sys.modules.get("sklearn")
    return sklearn.get_config()["transform_output"] if sklearn is not None else "default"


def contained(estimator: Any, result: Any, X: Any) -> Any:
    """An array (n, k) in the configured container, with the index of X if it has one; other results unchanged."""
    kind = configured(estimator)
    if kind == "default" or not isinstance(result, np.ndarray):
        return result
    columns = [str(name) for name in estimator.get_feature_names_out()]
    frame = importlib.import_module(kind).DataFrame
    if kind == "polars":
        return frame(result, schema=columns, orient="row")
    return frame(result, columns=columns, index=getattr(X, "index", None), copy=False)


def as_table(X: Any) -> Any:
    """A data frame of the variables of an ``xarray.Dataset``; anything else unchanged.

    Raises
    ------
    ValueError
        Variables do not have the same dimensions.
    """
    variables = getattr(X, "data_vars", None)
    if variables is None or not hasattr(X, "to_dataframe"):
        return X
    if len({variable.dims for variable in variables.values()}) != 1:
        shown = ", ".join(f"{name} {variable.dims}" for name, variable in variables.items())
        raise ValueError(
            f"X is a Dataset whose variables do not have the same dimensions ({shown}): expected one number for each "
            "sample in every variable, select or split the others first"
        )
    return X.to_dataframe()[list(variables)]
