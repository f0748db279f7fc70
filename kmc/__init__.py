"""kmc: sample posteriors without gradients.

Names are imported when they are first used, so that ``import kmc`` and ``kernelmc --help`` do not wait for numba.
"""

from typing import TYPE_CHECKING

from kmc._version import __version__
from kmc.lazy import lazy

if TYPE_CHECKING:
    from kmc import bases, diagnostics, forms, kernels, regression, scores, spectral
    from kmc.diagnostics.summary import summary
    from kmc.errors import EvaluationError, KmcWarning
    from kmc.mcmc import AdaptiveMetropolis, KernelHMC, RandomWalkMetropolis
    from kmc.plots import plot_ck_test, plot_implied_timescales, plot_pairs, plot_slow_modes, plot_validation
    from kmc.readout.evidence import evidence
    from kmc.readout.expectations import expectations
    from kmc.readout.resample import resample
    from kmc.run.executors import DaskExecutor, ProcessExecutor
    from kmc.run.find_start import find_start
    from kmc.run.iterate import iterate
    from kmc.run.records import Progress
    from kmc.run.sample import sample
    from kmc.run.sample_pymc import sample_pymc
    from kmc.run.store.extend import extend
    from kmc.run.store.load import load
    from kmc.targets.angles import Angle, Circular
    from kmc.targets.distributions import (
        Beta,
        Dirichlet,
        Exponential,
        Gamma,
        HalfNormal,
        LogNormal,
        Normal,
        StudentT,
        Uniform,
    )
    from kmc.targets.model import Model
    from kmc.targets.parameters import (
        CorrelationCholesky,
        Interval,
        LowerBound,
        Ordered,
        Positive,
        Real,
        Simplex,
        UpperBound,
    )
    from kmc.targets.priors import Prior
    from kmc.targets.pymc_model import from_pymc
    from kmc.targets.stan_model import from_stan

_HOMES = {
    "AdaptiveMetropolis": "kmc.mcmc",
    "Angle": "kmc.targets.angles",
    "Beta": "kmc.targets.distributions",
    "Circular": "kmc.targets.angles",
    "CorrelationCholesky": "kmc.targets.parameters",
    "DaskExecutor": "kmc.run.executors",
    "Dirichlet": "kmc.targets.distributions",
    "EvaluationError": "kmc.errors",
    "Exponential": "kmc.targets.distributions",
    "Gamma": "kmc.targets.distributions",
    "HalfNormal": "kmc.targets.distributions",
    "Interval": "kmc.targets.parameters",
    "KernelHMC": "kmc.mcmc",
    "KmcWarning": "kmc.errors",
    "LogNormal": "kmc.targets.distributions",
    "LowerBound": "kmc.targets.parameters",
    "Model": "kmc.targets.model",
    "Normal": "kmc.targets.distributions",
    "Ordered": "kmc.targets.parameters",
    "Positive": "kmc.targets.parameters",
    "Prior": "kmc.targets.priors",
    "ProcessExecutor": "kmc.run.executors",
    "Progress": "kmc.run.records",
    "RandomWalkMetropolis": "kmc.mcmc",
    "Real": "kmc.targets.parameters",
    "Simplex": "kmc.targets.parameters",
    "StudentT": "kmc.targets.distributions",
    "Uniform": "kmc.targets.distributions",
    "UpperBound": "kmc.targets.parameters",
    "evidence": "kmc.readout.evidence",
    "expectations": "kmc.readout.expectations",
    "extend": "kmc.run.store.extend",
    "find_start": "kmc.run.find_start",
    "from_pymc": "kmc.targets.pymc_model",
    "from_stan": "kmc.targets.stan_model",
    "iterate": "kmc.run.iterate",
    "load": "kmc.run.store.load",
    "plot_ck_test": "kmc.plots",
    "plot_implied_timescales": "kmc.plots",
    "plot_pairs": "kmc.plots",
    "plot_slow_modes": "kmc.plots",
    "plot_validation": "kmc.plots",
    "resample": "kmc.readout.resample",
    "sample": "kmc.run.sample",
    "sample_pymc": "kmc.run.sample_pymc",
    "summary": "kmc.diagnostics.summary",
}

_MODULES = ("bases", "diagnostics", "forms", "kernels", "regression", "scores", "spectral")

__all__ = [
    "AdaptiveMetropolis",
    "Angle",
    "Beta",
    "Circular",
    "CorrelationCholesky",
    "DaskExecutor",
    "Dirichlet",
    "EvaluationError",
    "Exponential",
    "Gamma",
    "HalfNormal",
    "Interval",
    "KernelHMC",
    "KmcWarning",
    "LogNormal",
    "LowerBound",
    "Model",
    "Normal",
    "Ordered",
    "Positive",
    "Prior",
    "ProcessExecutor",
    "Progress",
    "RandomWalkMetropolis",
    "Real",
    "Simplex",
    "StudentT",
    "Uniform",
    "UpperBound",
    "__version__",
    "bases",
    "diagnostics",
    "evidence",
    "expectations",
    "extend",
    "find_start",
    "forms",
    "from_pymc",
    "from_stan",
    "iterate",
    "kernels",
    "load",
    "plot_ck_test",
    "plot_implied_timescales",
    "plot_pairs",
    "plot_slow_modes",
    "plot_validation",
    "regression",
    "resample",
    "sample",
    "sample_pymc",
    "scores",
    "spectral",
    "summary",
]


__getattr__, __dir__ = lazy(__name__, _HOMES, _MODULES)
