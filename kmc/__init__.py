"""Sample posteriors without gradients, with few evaluations of the log-density.

>>> import kmc
>>> idata = kmc.sample(lambda x: -0.5 * x @ x, dim=3, max_evaluations=500, seed=1, progress=False)
>>> kmc.summary(idata)  # doctest: +SKIP

- A run: ``sample``, ``iterate`` and ``AskTell``; ``load`` and ``extend`` for runs on disk;
  ``Progress``, ``ProcessExecutor``, ``MapExecutor`` and ``DaskExecutor``.
- The target: ``Model``, with parameters such as ``Real``, ``Positive`` and ``Simplex``, or priors
  such as ``Normal`` and ``Gamma``; ``kmc.likelihoods``, of a simulator's outputs;
  ``from_residual``, ``from_pymc``, ``from_stan``, ``from_pints``, ``from_umbridge``;
  ``find_start``, ``record``.
- Samplers: ``KernelHMC`` is the default; without a surrogate, ``AdaptiveMetropolis`` and
  ``RandomWalkMetropolis``; ``Tempered`` for several modes; ``kmc.moves`` has moves, also your own.
- Results: ``summary``, ``report``, ``best``, ``expectations``, ``evidence``, ``resample``,
  ``predictive``, the functions ``plot_...``, and ``kmc.diagnostics``;
  ``simulation_based_calibration`` checks a model.
- Estimators: ``kmc.scores`` (gradients of log-densities, from samples), ``kmc.spectral``
  (eigenfunctions and time scales), ``kmc.regression``; with ``kmc.kernels``, ``kmc.bases`` and
  ``kmc.forms`` below them.
- To test a sampler or a move of your own: ``kmc.testing``.
"""

# Public names are listed in __init__.pyi, and imported when they are first used: `import kmc` and
# `kernelmc --help` do not wait for numba.

from kmc._version import __version__ as __version__
from kmc.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
