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
    noisy : bool
        Whether `log_density` returns the log of an unbiased estimate of the density, drawn anew at every call, instead
        of the density itself: the average over simulations, say. The draws are exact all the same, see the notes.

    Raises
    ------
    TypeError
        `log_density` is not callable, `dim` is not an integer, or `noisy` is not a bool.
    ValueError
        `dim` is not positive, or `nonfinite` is not one of the options.

    Notes
    -----
    An estimate is kept with its state and never made again: the chain of states and estimates then has the target as
    its marginal, whatever the noise [1]_. The estimate must be of the density, not of its log: noise in the log of
    variance v and mean -v/2, if it is Gaussian; averages of likelihoods are unbiased and averages of their logs are
    not. The noise sets the pace. With a sd of 1 in the log about half of all proposals can be accepted at best, and a
    draw is worth a fifth of an independent one; with 1.7, a fortieth; with 3, hardly anything.

    References
    ----------
    .. [1] Andrieu and Roberts (2009), "The pseudo-marginal approach for efficient Monte Carlo computations", Annals of
       Statistics 37.

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
    noisy: bool = False

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
        if not isinstance(self.noisy, bool):
            raise TypeError(
                f"noisy={self.noisy!r}: pass True if log_density returns the log of an unbiased estimate, else False"
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
