"""Small runs to interrupt, and checks that a resumed run is the same."""

import numpy as np

import kmc
from kmc.run.final_state import GROUP
from kmc.run.history import EVALUATIONS
from tests import values

QUIET = {"progress": False, "seed": 7, "chains": 2}

SAMPLERS = {
    "random-walk": "random-walk",
    "adaptive-metropolis": kmc.AdaptiveMetropolis(),
    "estimator": kmc.AdaptiveMetropolis(estimator=kmc.scores.GaussianScore()),
    "langevin": kmc.AdaptiveLangevin(max_states=50),
    "delayed": kmc.DelayedAcceptance(estimator=kmc.scores.GaussianScore()),
    "kameleon": kmc.Kameleon(max_states=50),
    "kernel-hmc": kmc.KernelHMC(),
    "nystrom": kmc.ScoreHMC(
        kmc.scores.NystromKEF(n_basis=15, bandwidth=1.0, regularization=1e-3),
        max_states=60,
        warmup_sampler=kmc.KernelHMC(burn_in=3),
    ),
    "online": kmc.ScoreHMC(
        kmc.scores.GaussianScore(),
        "vanishing",
        max_states=60,
        schedule=0.5,
        warmup_sampler=kmc.AdaptiveMetropolis(),
    ),
}


DRAWS = {"adaptive-metropolis": 120, "estimator": 120, "delayed": 250, "kernel-hmc": 105}
"""Of samplers with a short warm-up or few evaluations, so that all of these runs make more than 250
evaluations.
"""


def log_density(x):
    return -0.5 * float(x @ x) - 0.1 * float(x[0] ** 4)


class Stop(Exception):
    """What a user's function may raise."""


class Interrupted:
    """A log-density that raises at its k-th call."""

    def __init__(self, k, error, function=log_density):
        self.k, self.error, self.function, self.calls = k, error, function, 0

    def __call__(self, x):
        self.calls += 1
        if self.calls == self.k:
            raise self.error
        return self.function(x)


def settings(name, **others):
    return {
        **QUIET,
        "dim": 2,
        "sampler": SAMPLERS[name],
        "draws": DRAWS.get(name, 40),
        "max_evaluations": 300,
        **others,
    }


def groups(idata):
    return {name: idata[name] for name in values.groups(idata)}


VARYING = ("created_at", "sampling_time")


def content(variable):
    """Of text the strings, and of numbers the bytes."""
    array = np.asarray(variable)
    return array.tolist() if array.dtype == object else array.tobytes()


def evaluated(idata):
    """Points and values, each with its value."""
    group = groups(idata)[EVALUATIONS]
    values = np.asarray(group["lp"])
    rows = ~np.isnan(values)
    return {
        (*x, value) for x, value in zip(np.asarray(group["x"])[rows], values[rows], strict=True)
    }


def assert_same(one, other, attrs=True):
    """Groups, variables, coordinates, types and attributes, bit for bit, except for those that
    depend on the clock.

    The final state is not compared: a run with a store has it there, and its meter knows the time.
    Of the evaluations a store has all, and a result those that were learned from, and proposals of
    its draws.
    """
    assert set(groups(one)) - {GROUP} == set(groups(other)) - {GROUP}
    if EVALUATIONS in groups(one):
        few, all_of_them = sorted((evaluated(idata) for idata in (one, other)), key=len)
        assert few <= all_of_them
    for name in set(groups(one)) - {GROUP, EVALUATIONS}:
        group = groups(one)[name]
        left, right = (
            g.to_dataset() if hasattr(g, "to_dataset") else g for g in (group, groups(other)[name])
        )
        assert {k: v.dtype for k, v in left.variables.items()} == {
            k: v.dtype for k, v in right.variables.items()
        }
        for variable in left.variables:
            assert left[variable].dims == right[variable].dims, variable
            assert content(left[variable]) == content(right[variable]), variable
    if attrs:
        left, right = (
            {k: v for k, v in idata.attrs.items() if k not in VARYING} for idata in (one, other)
        )
        assert left == right
