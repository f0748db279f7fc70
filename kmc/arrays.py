"""Samples in arrays of other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np


def to_numpy(a: Any) -> np.ndarray:
    """Return an array of any library as a NumPy array, copied from its device where needed."""
    library = type(a).__module__.partition(".")[0]
    if library == "torch" and hasattr(a, "detach"):
        return a.detach().cpu().numpy()
    return a.get() if library == "cupy" else np.asarray(a)
