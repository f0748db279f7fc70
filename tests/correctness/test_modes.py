"""Moves on several surrogates leave the target invariant, however wrong these are; with a known error they do not."""

import numpy as np
import pytest

from kmc.mcmc.mode_mixture import ModeMixture
from tests.correctness.invariance import MANY, ONLY_SURROGATE, ONLY_TEMPERED, case, proposals_of
from tests.grids import slow_except

CHANGED = {"expected_exception": AssertionError, "match": "the distribution has changed"}


def several(one, **options):
    """Runs among a wrong surrogate, one in coordinates that bend volume, and one far from the other two."""
    far = one._fitted(lambda x: one.values(x - one.scale) - 1.0)
    plans = tuple(one.plan(surrogate, **options) for surrogate in (one.wrong, one.warped, far))
    return proposals_of(one, ModeMixture.of(plans, np.random.default_rng(4)).propose)


@pytest.mark.parametrize(
    ("name", "options"),
    slow_except(
        {
            "bimodal-runs": ("bimodal", ONLY_SURROGATE),
            "bimodal-tempered": ("bimodal", ONLY_TEMPERED),
            "banana-all": ("banana", {}),
            "student-t-all": ("student-t", {}),
        },
        {"bimodal-runs"},
    ),
)
def test_the_target_is_invariant_and_the_move_reversible(name, options):
    one = case(name)
    one.check(several(one, **options))


@pytest.mark.slow
def test_runs_without_the_ratio_of_the_surrogates_are_seen(monkeypatch):
    right = ModeMixture._chain
    monkeypatch.setattr(ModeMixture, "_chain", lambda *args: right(*args)._replace(log_ratio=0.0))
    one = case("bimodal")
    with pytest.raises(**CHANGED):
        one.check(several(one, **ONLY_SURROGATE), size=MANY)
