"""The target distribution, as the user states it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np

from kmc.targets.parameters import Parameter, Real
from kmc.targets.space import ParameterSpace, Space

NONFINITE = ("raise", "reject")


@dataclass(frozen=True, eq=False)
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

    log_density: Callable[..., Any]
    # What is left out is found from the rest, so that no reader of a model meets None where the types do not say so.
    dim: int = None  # type: ignore[assignment]
    _: KW_ONLY
    parameters: Mapping[str, Parameter] | None = None
    coords: Mapping[str, Any] = None  # type: ignore[assignment]
    dims: Mapping[str, Sequence[str]] = None  # type: ignore[assignment]
    initial: Any = None
    vectorized: bool = False
    noisy: bool = False
    nonfinite: str = "raise"
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = None  # type: ignore[assignment]
    space: Space = field(default=None, repr=False)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if not callable(self.log_density):
            raise TypeError(
                f"log_density={self.log_density!r} is not callable: "
                "pass a function that takes an array of shape (dim,) and returns a float"
            )
        space: Any = self.space
        object.__setattr__(self, "named", self.parameters is not None or space is not None)
        if space is None:
            parameters = self.parameters or {"x": Real(_positive_integer(self.dim))}
            space = ParameterSpace(parameters, self.coords, self.dims)
        object.__setattr__(self, "space", space)
        for name in ("dim", "coords", "dims"):
            object.__setattr__(self, name, getattr(space, name))
        if self.nonfinite not in NONFINITE:
            raise ValueError(
                f"nonfinite={self.nonfinite!r} is unknown: "
                'pass "raise" to stop at a NaN or "reject" to take it as a density of zero'
            )
        if not isinstance(self.noisy, bool):
            raise TypeError(
                f"noisy={self.noisy!r}: pass True if log_density returns the log of an unbiased estimate, else False"
            )
        if not isinstance(self.vectorized, bool):
            raise TypeError(
                f"vectorized={self.vectorized!r}: pass True if log_density takes many points at once, else False"
            )
        object.__setattr__(self, "kwargs", dict(self.kwargs or {}))

    named: bool = field(init=False, repr=False, default=False)

    def call(self, x: np.ndarray) -> Any:
        """Whatever `log_density` returns at x (d,), or (k, d) if the model is vectorized.

        It gets x itself, or new arrays where the parameters have names, and may write to them.
        """
        return self.log_density(x if self.parameters is None else self._by_name(x), *self.args, **self.kwargs)

    def _by_name(self, x: np.ndarray) -> dict[str, Any]:
        if self.vectorized:
            return self.space.constrain(x)
        values = self.space.constrain(x[None])
        return {name: value[0] if value.ndim > 1 else float(value[0]) for name, value in values.items()}

    def log_jacobian(self, x: np.ndarray) -> Any:
        """The log-Jacobian to be added to what the function returns: (d,) -> float, (k, d) -> (k,)."""
        return self.space.log_jacobian(x)

    def constrain(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """The parameters (n, *shape) at vectors (n, d), by name; ``{"x": points}`` where they have none."""
        return self.space.constrain(points)

    def initial_points(self, rng: np.random.Generator, n: int) -> np.ndarray | None:
        """Start points, unconstrained (k, d), or None where the sampler's own default is meant.

        The model's own `initial`, all of them, else n points of the space.
        """
        return self.space.initial_points(rng, n) if self.initial is None else np.array(self.initial)


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
