"""Models made from a function, another package's model, or residuals (``kmc.from_residual``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kmc.arrays import as_array
from kmc.checks import is_whole
from kmc.model.least_squares import Residual
from kmc.model.model import Model
from kmc.model.pymc_model import from_pymc
from kmc.model.stan_model import from_stan

MAKERS: dict[str, Callable[[Any], Model]] = {"pymc": from_pymc, "bridgestan": from_stan}
"""Functions that convert another package's model, by the name of that package."""


def as_model(target: Any, dim: int | None, name: str = "target") -> Model:
    """Return a Model, made from a bare callable, a PyMC or a Stan model if necessary.

    Errors call the argument ``name``.
    """
    for cls in type(target).__mro__:  # by name: neither package need be installed
        if (package := cls.__module__.split(".")[0]) in MAKERS:
            target = MAKERS[package](target)
            break
    if isinstance(target, Model):
        if dim is not None and not (is_whole(dim) and dim == target.dim):
            raise ValueError(f"dim={dim!r} contradicts the model's dim={target.dim}; leave it out")
        return target
    if not callable(target):
        raise TypeError(
            f"{name}={target!r}: expected a callable x -> log-density, a kmc.Model or a PyMC model"
        )
    if dim is None:
        raise ValueError("dim=None: a bare callable needs its number of parameters, such as dim=3")
    return Model(target, dim=dim)


def from_residual(
    f: Callable[..., Any], parameters: Any, sigma: Any = None, **options: Any
) -> Model:
    """Return the model whose residuals are independent Gaussian errors.

    Parameters
    ----------
    f : callable
        Returns the residuals, data minus prediction, as an array of any shape. It takes what the
        function of a :class:`kmc.Model` takes: an array (d,), a dict of parameters by name, or an
        ``lmfit.Parameters``, depending on `parameters`. A function for
        ``scipy.optimize.least_squares`` or ``lmfit.minimize`` can be passed unchanged.
    parameters : int, mapping of str to parameter, or lmfit.Parameters
        The number d of parameters of a function of an array; or names with supports or priors, as
        for :class:`kmc.Model`. Parameters with a support alone have a flat prior.
    sigma : float, array_like, str or None
        The standard deviation of the errors: a number or an array that the residuals' shape
        broadcasts with (1.0 if residuals are already divided by it); or the name of the parameter
        that is sampled for it. None: unknown, with the prior 1 / sigma, integrated out, as least
        squares estimate it from the residuals.
    **options
        Further arguments of :class:`kmc.Model`, such as ``args``, ``on_error`` or ``log_prior``.

    Returns
    -------
    Model
        Its log-likelihood, constants included.

    Raises
    ------
    TypeError, ValueError
        An invalid argument; or, in a run, residuals that are no array of numbers
        (:class:`kmc.EvaluationError`).

    Notes
    -----
    With `sigma` as None and n residuals r, the likelihood is the integral of prod_i N(r_i; 0,
    sigma²) / sigma, which is Γ(n/2) (π Σ r²)^(-n/2) / 2. The prior has no mass that is known, so
    that :func:`kmc.evidence` is NaN.

    ``kmc.sample(model, initial=fit)`` starts around a fit of ``scipy.optimize.least_squares`` or
    lmfit, and ``history=`` takes its evaluations from :func:`kmc.record`.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.optimize
    >>> import kmc
    >>> t = np.linspace(0, 3, 30)
    >>> y = 2 * np.exp(-1.2 * t) + 0.1 * np.random.default_rng(0).standard_normal(30)
    >>> def residual(x):
    ...     return y - x[0] * np.exp(-x[1] * t)
    >>> fit = scipy.optimize.least_squares(residual, [1.0, 1.0])
    >>> model = kmc.from_residual(residual, 2)
    >>> idata = kmc.sample(
    ...     model, initial=fit, draws=None, max_evaluations=500, seed=1, progress=False
    ... )
    >>> bool(np.all(abs(idata.posterior["x"].mean(("chain", "draw")) - fit.x) < 0.05))
    True
    """
    if isinstance(sigma, str):
        names = list(parameters) if hasattr(parameters, "keys") else []
        if sigma not in names:
            raise ValueError(
                f"sigma={sigma!r}: expected a number, or the name of a parameter, of "
                f"{', '.join(names)}"
            )
    elif sigma is not None:
        sigma = as_array("sigma", sigma)
        if not (np.all(np.isfinite(sigma)) and np.all(sigma > 0)):
            raise ValueError(f"sigma={sigma!r}: expected positive numbers")
    space = {"parameters": parameters} if hasattr(parameters, "keys") else {"dim": parameters}
    if not callable(f):
        raise TypeError(f"f={f!r}: expected a function that returns an array of residuals")
    return Model(log_likelihood=Residual(f, sigma), **space, **options)
