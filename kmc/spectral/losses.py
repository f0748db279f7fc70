"""The loss for eigenfunctions by optimization, as of networks: equations 17 and 18 of Cabannes and Bach (2023).

They use the operators and methods that NumPy's arrays and PyTorch's tensors have in common.
"""

from __future__ import annotations

from typing import Any


def spectral_loss(energies: Any, cutoff: Any, values: Any, others: Any = None) -> Any:
    r"""Return the loss whose minimum spans the eigenfunctions with eigenvalues below the cutoffs.

    .. math:: 2 \sum_j E[H(f_j, f_j, X)] / \mu_j + \|E[f(X) f(X)^\top] - I\|^2 + 2 |E f(X)|^2,

    equation 18 of [1]_ for the functions (1, f): the constant is the first eigenfunction, so that the others have mean
    zero. At the minimum the functions are :math:`\sqrt{1 - \lambda_j / \mu_j}` times the eigenfunctions, up to a
    rotation if all cutoffs are equal. With different cutoffs there is no rotation: the function of the lowest cutoff
    is the eigenfunction of the lowest eigenvalue, and so on.

    Parameters
    ----------
    energies : array (p,)
        E[H(f_j, f_j, X)] of each function.
    cutoff : float or array (p,)
        μ.
    values : array (n, p)
        f at a batch of samples.
    others : array (m, p), optional
        f at another, independent batch. Then the estimate is without bias (the second form of equation 17, the
        contrastive one). Without it the covariance is that of the one batch (the first form, as in whitening and
        VICReg [2]_), with a bias of the order 1 / n and less noise.

    Returns
    -------
    array, shape ()

    Notes
    -----
    Singular functions of two networks f and g, for pairs (X, Y) such as an image and its caption, have the energies
    :math:`e_j = E[(f_j(X) - g_j(Y))^2]` and the loss ``spectral_loss(e / 2, mu, f) + spectral_loss(e / 2, mu, g)``. At
    its minimum f and g are :math:`\sqrt{1 - (1 - \sigma_j) / \mu_j}` times the singular functions of
    :math:`g \mapsto E[g(Y) | X]` with the singular values :math:`\sigma_j`.

    References
    ----------
    .. [1] Cabannes and Bach (2023), "The Galerkin method beats graph-based approaches for spectral algorithms", section
       6.2.
    .. [2] Bardes, Ponce and LeCun (2022), "VICReg: Variance-invariance-covariance regularization for self-supervised
       learning", ICLR.

    Examples
    --------
    The function x has energy 1 in the Dirichlet form, and eigenvalue 1 for a standard normal distribution:

    >>> import numpy as np
    >>> from kmc.spectral import spectral_loss
    >>> x = np.random.default_rng(0).standard_normal((1000, 1))
    >>> x = (x - x.mean()) / x.std()
    >>> [round(float(spectral_loss(np.array([s**2]), 4.0, s * x)), 3) for s in (1.0, np.sqrt(1 - 1 / 4), 0.5)]
    [0.5, 0.438, 0.688]
    """
    return 2.0 * (energies / cutoff).sum() + (_of_one(values) if others is None else _of_two(values, others))


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
