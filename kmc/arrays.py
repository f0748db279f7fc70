"""Samples in arrays of other libraries, in data frames and in data sets of xarray, and results in data frames."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np


def to_numpy(a: Any) -> np.ndarray:
    """An array of any library as NumPy's, copied from its device where needed."""
    library = type(a).__module__.partition(".")[0]
    if library == "torch" and hasattr(a, "detach"):
        return a.detach().cpu().numpy()
    return a.get() if library == "cupy" else np.asarray(a)


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
