"""The target distribution, as the user states it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

NONFINITE = ("raise", "reject")


@dataclass(frozen=True)
class Model:
    """A log-density on R^d that can be evaluated and nothing more.

    Parameters
    ----------
    log_density : callable
        Takes a float64 array of shape (d,) and returns one real number: the log of the density at that point, up to
        a constant. ``-inf`` says that the density is zero there. The array is the function's own, to keep or change.
    dim : int
        The number d of parameters.
    nonfinite : {"raise", "reject"}
        What a NaN means: "raise" stops the run with an error that holds the parameter vector, "reject" takes it as
        ``-inf``. ``+inf`` always stops the run.

    Raises
    ------
    TypeError
        `log_density` is not callable, or `dim` is not an integer.
    ValueError
        `dim` is not positive, or `nonfinite` is not one of the options.

    Examples
    --------
    >>> import kmc
    >>> model = kmc.Model(lambda x: -0.5 * x @ x, dim=3)
    >>> model.dim
    3
    """

    log_density: Callable[[np.ndarray], float]
    dim: int
    nonfinite: str = "raise"

    def __post_init__(self) -> None:
        if not callable(self.log_density):
            raise TypeError(
                f"log_density={self.log_density!r} is not callable: "
                "pass a function that takes an array of shape (dim,) and returns a float"
            )
        object.__setattr__(self, "dim", _positive_integer(self.dim))
        if self.nonfinite not in NONFINITE:
            raise ValueError(
                f"nonfinite={self.nonfinite!r} is unknown: "
                'pass "raise" to stop at a NaN or "reject" to take it as a density of zero'
            )


def _positive_integer(dim: object) -> int:
    remedy = "pass the number of parameters, an integer of at least 1"
    if isinstance(dim, (bool, np.bool_)):
        raise TypeError(f"dim={dim!r} is not an integer: {remedy}")
    try:
        value = operator.index(dim)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"dim={dim!r} is not an integer: {remedy}") from None
    if value < 1:
        raise ValueError(f"dim={dim!r} is not positive: {remedy}")
    return value
