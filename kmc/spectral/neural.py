"""Eigenfunctions by a neural network, with the Galerkin method's energy as the loss.

PyTorch is an extra, and is imported only where it is used.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from kmc._names import install
from kmc.bases import Basis, KernelSections, Monomials
from kmc.checks import check_choice, check_count, check_number
from kmc.estimator import check_weights
from kmc.forms import accumulate
from kmc.forms.stream import blocks, length
from kmc.kernels import Gaussian, median_distance
from kmc.landmarks import choose
from kmc.seeds import Seed, as_generator
from kmc.source import BLOCK, gathered, is_stream, open_source, take
from kmc.spectral.eigenfunctions import EigenfunctionMap
from kmc.spectral.galerkin_method import galerkin
from kmc.spectral.operators import AugmentationPairs, DirichletForm, Form, TangentProp

if TYPE_CHECKING:
    import torch

FORMS = (DirichletForm, TangentProp, AugmentationPairs)

MOST_FOR_CUTOFF = 2000
"""Number of samples for the automatic cutoff."""


class NeuralEigenfunctions(EigenfunctionMap):
    r"""Eigenfunctions in a nonlinear space of functions, by stochastic optimization.

    A network f with p outputs minimizes

    .. math:: \frac{2}{\mu} \sum_j E[H(f_j, f_j, X)] + E[(f(X)^\top f(X'))^2] - 2 E|f(X)|^2 + p,

    equations 17 and 18 of Cabannes and Bach (2023), whose minimum spans the eigenfunctions with
    eigenvalues below μ. X and X' are independent batches, so that the gradients are unbiased. The
    constant is a further, fixed output, which gives the others mean zero. In the span of the
    trained outputs the eigenproblem is then solved over all samples by :func:`galerkin`: this
    separates the eigenfunctions, and undoes the shrinkage by :math:`\sqrt{1 - \lambda/\mu}`. For an
    optimizer of your own, or two networks, there is :func:`spectral_loss`.

    Needs PyTorch: ``pip install "kernelmc[torch]"``.

    Parameters
    ----------
    n_components : int
    form : DirichletForm, TangentProp or AugmentationPairs, optional
        The operator; :class:`DirichletForm` by default, as in :class:`DiffusionMap`.
    hidden_layer_sizes : sequence of int
        Hidden layers of a multilayer perceptron.
    module : torch.nn.Module, optional
        Your own network instead, from standardized points (n, d) to (n, p), p >= n_components. It
        is copied, and trained in double precision.
    cutoff : float, array_like (p,) or "auto"
        μ: eigenvalues above it cannot be found. "auto" is twice the estimate of the last requested
        eigenvalue in a small basis of kernel sections. Different numbers for the p outputs separate
        the eigenfunctions in training.
    regularizer : {"contrastive", "covariance"}
        How the outputs are kept orthonormal: as above, by products of two batches, or by the
        covariance of both batches together, as in whitening, with less noise and a bias of the
        order 1 / ``batch_size``.
    max_iter : int
        Number of optimization steps.
    batch_size : int
        Size of each of the two batches of a step.
    learning_rate : float
        Adam's learning rate at the first step; a cosine schedule reduces it to zero.
    random_state : int, Generator or None

    Attributes
    ----------
    eigenvalues_ : ndarray, shape (k,)
        Ascending, without the constant.
    basis_ : object
        The outputs of the trained network as a basis; ``basis_.module`` is the network.
    coefficients_ : ndarray, shape (p, k)
        The eigenfunctions in that basis.
    means_ : ndarray, shape (k,)
    cutoff_ : float or ndarray, shape (p,)
        μ.
    loss_curve_ : ndarray, shape (n_iter_,)
    n_iter_ : int
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.spectral import NeuralEigenfunctions
    >>> X = np.random.default_rng(0).standard_normal((2000, 1))
    >>> modes = NeuralEigenfunctions(2, max_iter=300, random_state=0).fit(X)  # doctest: +SKIP
    >>> modes.eigenvalues_.round(1)  # doctest: +SKIP
    array([1. , 2.])
    """

    def __init__(
        self,
        n_components: int = 8,
        form: Any = None,
        hidden_layer_sizes: Any = (64, 64),
        module: Any = None,
        cutoff: Any = "auto",
        regularizer: str = "contrastive",
        max_iter: int = 2000,
        batch_size: int = 256,
        learning_rate: float = 3e-3,
        random_state: Seed = None,
    ):
        self.n_components = n_components
        self.form = form
        self.hidden_layer_sizes = hidden_layer_sizes
        self.module = module
        self.cutoff = cutoff
        self.regularizer = regularizer
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, weights: Any = None) -> Self:
        """Train the network, and solve in the span of its outputs.

        Parameters
        ----------
        X : array_like (n, d), memory map, dask array, iterator of blocks (k, d), or list of these
            n >= 2, not all of them equal. Batches are read from the source; the points of an
            iterator are collected in memory.
        y : None
            Ignored.
        weights : array_like (n,), or in blocks as X, optional
            Not negative; batches are drawn in proportion to them.

        Returns
        -------
        self

        Raises
        ------
        ImportError
            PyTorch is not installed.
        ValueError, TypeError
            Points are invalid, a module does not map them to enough outputs, the loss is no longer
            finite, or a parameter is out of its range; the message names it.
        """
        _import_torch()
        x, w = self._read(X, weights)
        form = self._checked_form()
        rng = as_generator(self.random_state)
        mean, spread = _mean_and_deviation(x)
        self.n_features_in_ = len(mean)
        self.cutoff_ = self._cutoff(form, x, w, rng)
        with seeded(int(rng.integers(2**62))):
            module = self._network(len(mean))
            size = self._outputs(module, len(mean))
            if np.ndim(self.cutoff_) and len(self.cutoff_) != size:
                raise ValueError(
                    f"cutoff has {len(self.cutoff_)} numbers, but the network has {size} outputs"
                )
            basis = NetworkFunctions(module, mean, np.where(spread > 0, spread, 1.0), size)
            batches = _batches(x, w, self.batch_size, rng)
            apart = self.regularizer == "contrastive"
            losses = train(
                basis, form, batches, self.cutoff_, apart, self.learning_rate, self.max_iter
            )
        if not np.all(np.isfinite(losses)):
            raise ValueError(
                f"learning_rate={self.learning_rate}: the loss is no longer finite, use a smaller "
                f"one"
            )
        self.loss_curve_, self.n_iter_ = losses, len(losses)
        found = galerkin(form, basis, None, x, weights=w, n_components=self.n_components)
        self.eigenvalues_ = (
            found.singular_values_ if found.eigenvalues_ is None else found.eigenvalues_
        )
        self.basis_, self.coefficients_, self.means_ = (
            basis,
            found.left.coefficients,
            found.left.offset,
        )
        return self

    def _read(self, X: Any, weights: Any) -> tuple[Any, np.ndarray]:
        """Points that can be read repeatedly, and the weight of each."""
        if is_stream(X) and length(X) is None:
            X, weights, _ = gathered(X, weights)
        source = open_source(self, X, weights)
        w = source.weights
        if w is None:
            w = np.ones(source.rows or 0)
        elif is_stream(w, 1):
            w = np.concatenate([part.weights for part in blocks(source.x, BLOCK, w)])
        return source.x, check_weights(w, len(w))

    def _checked_form(self) -> Form:
        for name in ("n_components", "max_iter", "batch_size"):
            check_count(self, name, 1)
        check_number(self, "learning_rate", 0)
        check_choice(self, "regularizer", ("contrastive", "covariance"))
        sizes = np.atleast_1d(np.asarray(self.hidden_layer_sizes))
        if sizes.dtype.kind not in "iu" or sizes.ndim != 1 or np.any(sizes < 1):
            raise ValueError(
                f"hidden_layer_sizes={self.hidden_layer_sizes!r}: expected whole numbers of at "
                f"least 1"
            )
        form = DirichletForm() if self.form is None else self.form
        if not isinstance(form, FORMS):
            names = ", ".join(one.__name__ for one in FORMS)
            raise TypeError(f"form={self.form!r}: expected None or an object of {names}")
        return form

    def _cutoff(self, form, x, w, rng):
        if not isinstance(self.cutoff, str):
            if np.ndim(self.cutoff) == 1:
                return _positive(self.cutoff)
            check_number(self, "cutoff", 0)
            return float(self.cutoff)
        if self.cutoff != "auto":
            raise ValueError(f"cutoff={self.cutoff!r}: expected 'auto' or a positive number")
        if len(w) > MOST_FOR_CUTOFF:
            x, w = take(x, np.sort(rng.choice(len(w), MOST_FOR_CUTOFF, p=w / w.sum()))), None
        else:
            x = take(x, np.arange(len(w)))
        landmarks = choose("uniform", x, max(50, 4 * self.n_components), rng)
        sections = KernelSections(Gaussian(median_distance(x)), landmarks)
        found = galerkin(form, sections, None, x, weights=w)
        positive = found.singular_values_[found.singular_values_ > 0]
        if not len(positive):
            raise ValueError("cutoff='auto': the form vanishes on these samples, give a number")
        return 2.0 * float(positive[min(self.n_components, len(positive)) - 1])

    def _network(self, dim):
        torch = _import_torch()
        if self.module is None:
            hidden = tuple(int(size) for size in np.atleast_1d(self.hidden_layer_sizes))
            return multilayer_perceptron(dim, hidden, self.n_components)
        if not isinstance(self.module, torch.nn.Module):
            raise TypeError(f"module={self.module!r}: expected None or a torch.nn.Module")
        return copy.deepcopy(self.module).double()

    def _outputs(self, module, dim):
        torch = _import_torch()
        with torch.no_grad():
            shape = tuple(module(torch.zeros(2, dim, dtype=torch.float64)).shape)
        if len(shape) != 2 or shape[0] != 2 or shape[1] < self.n_components:
            raise ValueError(
                f"module={self.module!r} gave shape {shape} for 2 points: expected (2, p), p >= "
                f"{self.n_components}"
            )
        return shape[1]


def _positive(cutoff) -> np.ndarray:
    levels = np.asarray(cutoff, dtype=float)
    if not np.all((levels > 0) & np.isfinite(levels)):
        raise ValueError(f"cutoff={cutoff!r}: expected positive numbers")
    return levels


def _import_torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"NeuralEigenfunctions needs PyTorch. Install it with: {install('torch')}"
        ) from error
    return torch


def _mean_and_deviation(x) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each coordinate, in one pass."""
    first = next(blocks(x, 1)).x
    forms = accumulate(Monomials(1, first.shape[1], center=first[0]), x, ("mass",))
    return first[0] + forms.get("mean") / forms.weight, np.sqrt(np.diag(forms.centered_mass()))


def _batches(x, weights, size, rng) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of independent batches, each with its rows in order."""
    cumulative = np.cumsum(weights)
    while True:
        rows = np.searchsorted(
            cumulative, rng.uniform(0.0, cumulative[-1], (2, size)), side="right"
        )
        first, second = np.sort(np.minimum(rows, len(weights) - 1), axis=1)
        yield take(x, first), take(x, second)


@dataclass(frozen=True, eq=False)
class NetworkFunctions(Basis):
    """The outputs of a module as a basis with values and gradients.

    Attributes
    ----------
    module : torch.nn.Module
        From z = (x - center) / scale (n, d) to (n, p).
    center, scale : ndarray, shape (d,)
    size : int
        p.
    """

    module: Any
    center: np.ndarray
    scale: np.ndarray
    size: int

    def values(self, x: np.ndarray) -> np.ndarray:
        """(n, p) values."""
        import torch

        with torch.no_grad():
            return self.outputs(x).numpy()

    def gradients(self, x: np.ndarray) -> np.ndarray:
        """(n, p, d) gradients."""
        import torch

        with torch.no_grad():
            return self.jacobians(x).numpy()

    def laplacians(self, x: np.ndarray) -> np.ndarray:
        """Raise TypeError: the Laplacians are not available."""
        raise TypeError("the Laplacians of a network are not available")

    def outputs(self, x: np.ndarray) -> torch.Tensor:
        """(n, p) values, with derivatives in the parameters of the network."""
        return self.module(self._standard(x))

    def jacobians(self, x: np.ndarray) -> torch.Tensor:
        """Return the gradients (n, p, d), for each point separately.

        They have derivatives in the parameters of the network.
        """
        import torch

        derived = torch.func.jacfwd if x.shape[1] < self.size else torch.func.jacrev
        one = derived(lambda z: self.module(z[None])[0])
        return torch.func.vmap(one)(self._standard(x)) / torch.as_tensor(self.scale)

    def _standard(self, x):
        import torch

        return torch.as_tensor((x - self.center) / self.scale)


def multilayer_perceptron(dim: int, hidden: tuple[int, ...], outputs: int) -> Any:
    """Build a network in double precision with hidden layers of SiLU units, which are smooth."""
    import torch

    sizes = [dim, *hidden]
    layers: list[Any] = []
    for inner, outer in pairwise(sizes):
        layers += [torch.nn.Linear(inner, outer), torch.nn.SiLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(sizes[-1], outputs)).double()


def energies(form: Form, basis: NetworkFunctions, x: np.ndarray) -> torch.Tensor:
    """Return E[H(f_j, f_j, X)] of each output (p,) over a batch x (n, d).

    It has derivatives in the network's parameters.
    """
    import torch

    if isinstance(form, AugmentationPairs):
        apart = [basis.outputs(first) - basis.outputs(second) for first, second in form.pairs(x)]
        return torch.stack([(a**2).mean(dim=0) for a in apart]).mean(dim=0)
    gradients = basis.jacobians(x)
    if isinstance(form, TangentProp):
        along = torch.einsum("npd,nkd->npk", gradients, torch.as_tensor(form.vectors(x)))
        return (along**2).mean(dim=(0, 2))
    return (gradients**2).sum(dim=2).mean(dim=0)


def train(
    basis: NetworkFunctions,
    form: Form,
    batches: Iterator[tuple[np.ndarray, np.ndarray]],
    cutoff: float | np.ndarray,
    apart: bool,
    learning_rate: float,
    steps: int,
) -> np.ndarray:
    """Minimize equation 18, 2 Σ E(f_j) / μ_j + R(f), by Adam with a cosine schedule.

    Return the loss of each step. R is estimated from two batches ``apart``, or from both together.
    """
    import torch

    module = basis.module.train()
    optimizer = torch.optim.Adam(module.parameters(), lr=learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    losses, levels = np.empty(steps), torch.as_tensor(cutoff)
    for step, (first, second) in zip(range(steps), batches, strict=False):
        optimizer.zero_grad()
        both = np.concatenate([first, second])
        values = basis.outputs(both)
        parts = values.split(len(first)) if apart else (values,)
        loss = spectral_loss(energies(form, basis, both), levels, *parts)
        loss.backward()
        optimizer.step()
        schedule.step()
        losses[step] = loss.item()
    module.eval()
    return losses


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Set PyTorch's seed, and restore its random state afterwards."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def spectral_loss(energies: Any, cutoff: Any, values: Any, others: Any = None) -> Any:
    r"""Return the loss whose minimum spans the eigenfunctions with eigenvalues below the cutoffs.

    .. math:: 2 \sum_j E[H(f_j, f_j, X)] / \mu_j + \|E[f(X) f(X)^\top] - I\|^2 + 2 |E f(X)|^2,

    equation 18 of [1]_ for the functions (1, f): the constant is the first eigenfunction, so that
    the others have mean zero. At the minimum the functions are :math:`\sqrt{1 - \lambda_j / \mu_j}`
    times the eigenfunctions, up to a rotation if all cutoffs are equal. With different cutoffs
    there is no rotation: the function of the lowest cutoff is the eigenfunction of the lowest
    eigenvalue, and so on.

    Parameters
    ----------
    energies : array (p,)
        E[H(f_j, f_j, X)] of each function.
    cutoff : float or array (p,)
        μ.
    values : array (n, p)
        f at a batch of samples.
    others : array (m, p), optional
        f at another, independent batch. Then the estimate is without bias (the second form of
        equation 17, the contrastive one). Without it the covariance is that of the one batch (the
        first form, as in whitening and VICReg [2]_), with a bias of the order 1 / n and less noise.

    Returns
    -------
    array, shape ()

    Notes
    -----
    Singular functions of two networks f and g, for pairs (X, Y) such as an image and its caption,
    have the energies :math:`e_j = E[(f_j(X) - g_j(Y))^2]` and the loss ``spectral_loss(e / 2, mu,
    f) + spectral_loss(e / 2, mu, g)``. At its minimum f and g are :math:`\sqrt{1 - (1 - \sigma_j) /
    \mu_j}` times the singular functions of :math:`g \mapsto E[g(Y) | X]` with the singular values
    :math:`\sigma_j`.

    References
    ----------
    .. [1] Cabannes and Bach (2023), "The Galerkin method beats graph-based approaches for spectral
       algorithms", section 6.2.
    .. [2] Bardes, Ponce and LeCun (2022), "VICReg: Variance-invariance-covariance regularization
       for self-supervised learning", ICLR.

    Examples
    --------
    The function x has energy 1 in the Dirichlet form, and eigenvalue 1 for a standard normal
    distribution:

    >>> import numpy as np
    >>> from kmc.spectral import spectral_loss
    >>> x = np.random.default_rng(0).standard_normal((1000, 1))
    >>> x = (x - x.mean()) / x.std()
    >>> [
    ...     round(float(spectral_loss(np.array([s**2]), 4.0, s * x)), 2)
    ...     for s in (1.0, np.sqrt(1 - 1 / 4), 0.5)
    ... ]
    [0.5, 0.44, 0.69]
    """
    return 2.0 * (energies / cutoff).sum() + (
        _of_one(values) if others is None else _of_two(values, others)
    )


def _of_one(f: Any) -> Any:
    """Return ‖E[f fᵀ] - I‖² + 2 |E f|² of a batch (n, p)."""
    n, p = f.shape
    second = f.T @ f / n
    return (second**2).sum() - 2.0 * (f**2).sum(1).mean() + p + 2.0 * (f.mean(0) ** 2).sum()


def _of_two(first: Any, second: Any) -> Any:
    """Estimate the same without bias from independent batches (n, p) and (m, p).

    It is E[(f(X)ᵀf(X'))²] + 2 E[f(X)ᵀf(X')] - 2 E|f(X)|² + p.
    """
    products = first @ second.T
    squares = (first**2).sum(1).mean() + (second**2).sum(1).mean()
    return (products**2 + 2.0 * products).mean() - squares + first.shape[1]
