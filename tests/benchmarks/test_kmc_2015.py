"""Figures 3 and 5 of the paper on Kernel Hamiltonian Monte Carlo."""

import kmc_2015
import numpy as np
import pytest
from scipy.signal import lfilter

from kmc.mcmc.metropolis import Proposal
from kmc.mcmc.score_field import plain_path
from kmc.targets.toys import Banana
from tests.oracles import differences


def test_paths_along_the_true_gradient_are_accepted():
    x, rng = np.linspace(-1.0, 2.0, 8), np.random.default_rng(1)
    np.testing.assert_allclose(kmc_2015.banana_gradient(x), differences.gradient(Banana(8), x, 1e-4), atol=1e-6)
    move = kmc_2015.path_move(lambda z, p, **k: plain_path(kmc_2015.banana_gradient, z, p, **k), rng)
    draws, accepted = kmc_2015.Chain(Banana(8), move, rng).run(60)
    assert accepted > 0.5 and draws[:, 0].std() > 4.0


@pytest.mark.slow
def test_a_path_of_a_good_estimator_keeps_its_energy():
    assert kmc_2015.path_run("KMC finite", 1, 300, 0)["acceptance"] > 0.5
    assert kmc_2015.path_run("KMC theirs", 2, 200, 0)["acceptance"] > 0.5


def test_rows_are_kept_and_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(kmc_2015, "RESULTS", tmp_path / "rows.csv")
    found = kmc_2015.banana_run("RW", 0, 1)
    for seed in range(2):
        kmc_2015.append_row(
            kmc_2015.RESULTS,
            kmc_2015.COLUMNS,
            {**dict(zip(kmc_2015.KEY, (3, "RW", 8, 0, seed), strict=True)), **found, "seconds": 1.0},
        )
    assert "| RW |  | 2 | 0.21 / 0." in kmc_2015.table_3(kmc_2015.read_rows(kmc_2015.RESULTS))
    assert "| 64 | 0.01 / – / – / – |" in kmc_2015.table_5(kmc_2015.read_rows(kmc_2015.RESULTS))


def test_spectral_ess():
    """Of an autoregression x' = r x + noise it is n (1 - r) / (1 + r)."""
    n = 100_000
    noise = np.random.default_rng(1).standard_normal(n)
    for r in (0.0, 0.8, -0.5):
        x = lfilter([1.0], [1.0, -r], noise)
        # Relative variances, times n: of the squared sum of the weights, of the innovation, of the density for each
        # further weight (4, Berk 1974), of which there are as many as the largest order has, and of the variance.
        parts = 4 * (1 + r) / (1 - r), 2, 4 * 10 * np.log10(n), 2 * (1 + r**2) / (1 - r**2)
        assert abs(kmc_2015.spectral_ess(x) / (n * (1 - r) / (1 + r)) - 1) < 4.5 * np.sqrt(sum(parts) / n)
    assert kmc_2015.spectral_ess(np.ones(100)) == 0.0


def test_the_first_proposal_may_count_as_accepted():
    """One that ends where the density is zero to working precision; a chain that begins as usual stays."""
    rng = np.random.default_rng(1)
    for first in (False, True):
        chain = kmc_2015.Chain(Banana(8), lambda x: Proposal(x + 1e3, 0.0, 0), rng, accept_first=first)
        draws, accepted = chain.run(5)
        assert accepted == 0.2 * first and (draws[0, 0] == 1e3) == first


def test_their_kameleon():
    """Its covariance, literally, from one state; steps that go back as probably as forth are not corrected."""
    rng = np.random.default_rng(2)
    draws, x = Banana(8).sample(rng, 50), np.linspace(-1.0, 1.0, 8)
    squares = np.sum((draws[:, None] - draws) ** 2, axis=2)
    width = 0.5 * np.median(squares[squares > 0])
    m = 4.0 / width * np.exp(-np.sum((draws - x) ** 2, axis=1) / width)[:, None] * (draws - x)
    expected = np.eye(8) + 2.0 * m.T @ (np.eye(50) - 1 / 50) @ m
    plain, corrected = (kmc_2015.kameleon_as_theirs(draws, rng, corrected=c) for c in (False, True))
    steps = np.array([plain(x).position - x for _ in range(4000)])
    white = np.linalg.solve(np.linalg.cholesky(expected), steps.T)
    np.testing.assert_allclose(white @ white.T / 4000, np.eye(8), atol=5 * np.sqrt(2 / 4000))
    assert plain(x).log_ratio == 0.0 != corrected(x).log_ratio


def test_their_choice_of_parameters():
    """Of a Gaussian in two dimensions, whose score is -x."""
    draws = np.random.default_rng(3).standard_normal((60, 2))
    field = kmc_2015.chosen_as_theirs(draws, np.random.default_rng(4))
    errors = np.array([field.gradient(x) + x for x in draws[:50]])
    assert np.mean(np.sum(errors**2, axis=1)) < 0.5 * np.mean(np.sum(draws[:50] ** 2, axis=1))
