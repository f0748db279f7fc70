"""Radial kernels k(x, y) = q(s), s = |x - y|^2, through their profile q and its derivatives in s.

An estimator needs of a radial kernel only q, q', ... at squared distances: the gradient of a section
is 2 q' r and its Laplacian is 4 q'' s + 2 d q', with r = x - y.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from kmc.checks import length, positive, set_checked
from kmc.kernels.algebra import Kernel
from kmc.kernels.program import GAUSSIAN, MATERN, POWER, evaluate

if TYPE_CHECKING:
    from kmc.kernels.program import Instruction


class RadialKernel(Protocol):
    """A positive-definite radial kernel."""

    def profile(self, s: np.ndarray) -> np.ndarray:
        """q(s) at squared distances of any shape."""

    def derivatives(self, s: np.ndarray, order: int = 2) -> tuple[np.ndarray, ...]:
        """q, q', ... up to that order (at most 4) at squared distances of any shape."""


class _BuiltIn(Kernel, ABC):
    """A radial kernel that is a single instruction of the machine in :mod:`kmc.kernels.program`."""

    kind = "distance"

    def derivatives(self, s: np.ndarray, order: int = 2) -> tuple[np.ndarray, ...]:
        """q, q', ... up to that order (at most 4) at squared distances of any shape."""
        return evaluate(self.postfix(), s, order)

    @abstractmethod
    def postfix(self) -> tuple[Instruction, ...]:
        """Return the kernel as instructions of that machine."""


@dataclass(frozen=True)
class Gaussian(_BuiltIn):
    r"""The Gaussian kernel :math:`k(x, y) = \exp(-|x - y|^2 / (2\,\mathrm{bandwidth}^2))`.

    Parameters
    ----------
    bandwidth : float
        Positive, in the units of x.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.kernels import Gaussian
    >>> Gaussian(bandwidth=2.0).profile(np.array([0.0, 8.0])).round(4)
    array([1.    , 0.3679])
    """

    bandwidth: float = 1.0

    def __post_init__(self):
        set_checked(self, length, "bandwidth")

    @property
    def rate(self) -> float:
        """The factor of s in the exponent, 1 / (2 bandwidth^2)."""
        return 0.5 / self.bandwidth**2

    def postfix(self) -> tuple[Instruction, ...]:
        """One instruction."""
        return ((GAUSSIAN, self.rate, 0.0),)


@dataclass(frozen=True)
class InverseMultiquadric(_BuiltIn):
    r"""The inverse multiquadric :math:`k(x, y) = (1 + |x - y|^2 / \mathrm{bandwidth}^2)^{-\mathrm{exponent}}`.

    The rational quadratic kernel with parameters α and ℓ is ``InverseMultiquadric((2 * α) ** 0.5 * ℓ, α)``.

    Parameters
    ----------
    bandwidth : float
        Positive, in the units of x.
    exponent : float
        Positive. Multiples of 1/2 are the fastest.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.kernels import InverseMultiquadric
    >>> InverseMultiquadric(bandwidth=2.0).profile(np.array([0.0, 12.0]))
    array([1. , 0.5])
    """

    bandwidth: float = 1.0
    exponent: float = 0.5

    def __post_init__(self):
        set_checked(self, length, "bandwidth")
        set_checked(self, positive, "exponent")

    def postfix(self) -> tuple[Instruction, ...]:
        """One instruction."""
        return ((POWER, 1.0 / self.bandwidth**2, self.exponent),)


@dataclass(frozen=True)
class Matern52(_BuiltIn):
    r"""The Matérn-5/2 kernel, with :math:`a = \sqrt5\,|x - y| / \mathrm{bandwidth}`.

    .. math:: k(x, y) = (1 + a + a^2/3)\,e^{-a}.

    Its sections have four derivatives where x = y. There q''' and q'''' diverge in s and are set to 0.

    Parameters
    ----------
    bandwidth : float
        Positive, in the units of x.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.kernels import Matern52
    >>> Matern52(bandwidth=2.0).profile(np.array([0.0, 4.0])).round(4)
    array([1.   , 0.524])
    """

    bandwidth: float = 1.0

    differentiability = 4.0

    def __post_init__(self):
        set_checked(self, length, "bandwidth")

    def postfix(self) -> tuple[Instruction, ...]:
        """One instruction: the second shape of the family."""
        return ((MATERN, 5.0 / self.bandwidth**2, 1.0),)


@dataclass(frozen=True)
class Matern72(_BuiltIn):
    r"""The Matérn-7/2 kernel, with :math:`a = \sqrt7\,|x - y| / \mathrm{bandwidth}`.

    .. math:: k(x, y) = (1 + a + 2a^2/5 + a^3/15)\,e^{-a}.

    Its sections have six derivatives where x = y. There q'''' diverges in s and is set to 0.

    Parameters
    ----------
    bandwidth : float
        Positive, in the units of x.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.kernels import Matern72
    >>> Matern72(bandwidth=2.0).profile(np.array([0.0, 4.0])).round(4)
    array([1.    , 0.5449])
    """

    bandwidth: float = 1.0

    differentiability = 6.0

    def __post_init__(self):
        set_checked(self, length, "bandwidth")

    def postfix(self) -> tuple[Instruction, ...]:
        """One instruction: the first shape of the family."""
        return ((MATERN, 7.0 / self.bandwidth**2, 0.0),)


@dataclass(frozen=True)
class Exponential(_BuiltIn):
    r"""The exponential (Laplace, Matérn-1/2) kernel :math:`k(x, y) = \exp(-|x - y| / \mathrm{bandwidth})`.

    Its sections have a kink where x = y: there they have no gradient, and by convention all derivatives in s are 0.

    Parameters
    ----------
    bandwidth : float
        Positive, in the units of x.

    Examples
    --------
    >>> import numpy as np
    >>> from kmc.kernels import Exponential
    >>> Exponential(bandwidth=2.0).profile(np.array([0.0, 4.0])).round(4)
    array([1.    , 0.3679])
    """

    bandwidth: float = 1.0

    differentiability = 0.0

    def __post_init__(self):
        set_checked(self, length, "bandwidth")

    def postfix(self) -> tuple[Instruction, ...]:
        """One instruction: the fourth shape of the Matérn family."""
        return ((MATERN, 1.0 / self.bandwidth**2, 3.0),)
