"""Training of networks to be eigenfunctions. PyTorch is an extra, and is imported only where it is used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from kmc.bases import Basis
from kmc.spectral.operators import AugmentationPairs, Form, TangentProp

if TYPE_CHECKING:
    import torch


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
        """Not given."""
        raise TypeError("the Laplacians of a network are not available")

    def outputs(self, x: np.ndarray) -> torch.Tensor:
        """(n, p) values, with derivatives in the parameters of the network."""
        return self.module(self._standard(x))

    def jacobians(self, x: np.ndarray) -> torch.Tensor:
        """(n, p, d) gradients, with derivatives in the parameters of the network; each point separately."""
        import torch

        derived = torch.func.jacfwd if x.shape[1] < self.size else torch.func.jacrev
        one = derived(lambda z: self.module(z[None])[0])
        return torch.func.vmap(one)(self._standard(x)) / torch.as_tensor(self.scale)

    def _standard(self, x):
        import torch

        return torch.as_tensor((x - self.center) / self.scale)


def multilayer_perceptron(dim: int, hidden: tuple[int, ...], outputs: int) -> Any:
    """A network with hidden layers of SiLU units, which are smooth, in double precision."""
    import torch

    sizes = [dim, *hidden]
    layers: list[Any] = []
    for inner, outer in pairwise(sizes):
        layers += [torch.nn.Linear(inner, outer), torch.nn.SiLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(sizes[-1], outputs)).double()


def energy(form: Form, basis: NetworkFunctions, x: np.ndarray) -> torch.Tensor:
    """Σ_j E[H(f_j, f_j, X)] over a batch x (n, d), with derivatives in the parameters of the network."""
    import torch

    if isinstance(form, AugmentationPairs):
        apart = [basis.outputs(first) - basis.outputs(second) for first, second in form.pairs(x)]
        return torch.stack([(a**2).sum(dim=1).mean() for a in apart]).mean()
    gradients = basis.jacobians(x)
    if isinstance(form, TangentProp):
        along = torch.einsum("npd,nkd->npk", gradients, torch.as_tensor(form.vectors(x)))
        return (along**2).sum(dim=1).mean()
    return (gradients**2).sum(dim=(1, 2)).mean()


def orthogonality(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    r"""The regularizer of equation 17 for (1, f), without bias from two independent batches of f, (n, p) and (m, p).

    E[(f(X)ᵀf(X'))²] + 2 E[f(X)ᵀf(X')] - 2 E|f(X)|² + p = ‖E[f fᵀ] - I‖² + 2 |E f|²: the constant is the first of the
    orthonormal functions, so f must have mean zero.
    """
    products = first @ second.T
    squares = (first**2).sum(dim=1).mean() + (second**2).sum(dim=1).mean()
    return (products**2 + 2.0 * products).mean() - squares + first.shape[1]


def train(
    basis: NetworkFunctions,
    form: Form,
    batches: Iterator[tuple[np.ndarray, np.ndarray]],
    cutoff: float,
    learning_rate: float,
    steps: int,
) -> np.ndarray:
    """Minimize equation 18, 2 Σ E(f_j) / μ + R(f), by Adam with a cosine schedule; the loss of each step."""
    import torch

    module = basis.module.train()
    optimizer = torch.optim.Adam(module.parameters(), lr=learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    losses = np.empty(steps)
    for step, (first, second) in zip(range(steps), batches, strict=False):
        optimizer.zero_grad()
        both = np.concatenate([first, second])
        loss = 2.0 / cutoff * energy(form, basis, both) + orthogonality(*basis.outputs(both).split(len(first)))
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
