"""Draws from a surrogate that are used several times."""

import numpy as np

from kmc.control_variates import means
from kmc.control_variates.means import chains_of
from tests.control_variates.test_domain import made


def test_twins_have_the_same_draws_which_are_made_once(monkeypatch):
    (chains,) = chains_of(made(4, 60), np.random.default_rng(1))
    calls = []
    inner_chains = means.inner_chains

    def counted(*args, **options):
        calls.append(args)
        return inner_chains(*args, **options)

    monkeypatch.setattr(means, "inner_chains", counted)
    first, second = chains.twin(), chains.twin()
    all_at_once = first.draws(6)
    assert len(calls) == 6
    np.testing.assert_array_equal(
        np.concatenate([second.draws(2), second.draws(4)], axis=1), all_at_once
    )
    assert len(calls) == 6
    again = chains.draws(8)
    assert len(calls) == 8
    np.testing.assert_array_equal(again[:, :6], all_at_once)
    assert np.ptp(again, axis=1).min() > 0.0
