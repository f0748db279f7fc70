import copy
import json
import pickle

import numpy as np
import pytest

from kmc.diagnostics import Gap, langevin_gap, langevin_modes, spectral_gap
from kmc.errors import KmcWarning
from tests.diagnostics.test_modes import autoregressions


@pytest.mark.parametrize("phi", [0.8, -0.6, 0.0])
def test_the_gap_of_an_autoregression(phi):
    """1 - φ, and 1 - φ² of the second Hermite polynomial if φ is negative."""
    x = autoregressions((4, 5000, 1), phi, 10)
    assert spectral_gap(x, n_basis=60) == pytest.approx(1 - max(phi, phi**2), abs=0.04)
    if phi > 0:
        assert spectral_gap(x, 4, n_basis=60) == pytest.approx(1 - phi, abs=0.04)


def test_the_langevin_gap_of_a_normal_distribution():
    """The inverse of the largest eigenvalue of the covariance."""
    covariance = np.array([[100.0, 9.0], [9.0, 1.0]])
    x = np.random.default_rng(11).multivariate_normal([5.0, 0.0], covariance, (4, 1000))
    truth = 1 / np.linalg.eigvalsh(covariance)[-1]
    gap = langevin_gap(x)
    assert gap == pytest.approx(truth, rel=0.1)
    assert abs(gap - truth) < 3 * gap.std_error < 0.3 * truth


def test_chains_of_one_target_have_one_langevin_gap_and_gaps_of_their_own():
    for phi in (0.5, 0.9, 0.98):
        x = autoregressions((4, 2000, 2), phi, 1)
        chain, target = spectral_gap(x, n_basis=60), langevin_gap(x, n_basis=60)
        assert abs(chain - (1 - phi)) < 3 * chain.std_error < 0.6 * (1 - phi) + 0.03
        assert abs(target - 1.0) < 3 * target.std_error


def test_the_error_at_a_longer_lagtime():
    x = autoregressions((8, 1000, 1), 0.9, 2)
    gap = spectral_gap(x, 5, n_basis=30)
    assert abs(gap - 0.1) < 3 * gap.std_error < 0.1


def test_a_gap_is_a_number_with_an_error():
    gap = Gap(0.25, 0.011)
    assert gap == 0.25 and gap + 1 == 1.25 and json.dumps(gap) == "0.25"
    assert repr(gap) == "0.25 ± 0.011"
    for other in (pickle.loads(pickle.dumps(gap)), copy.deepcopy(gap)):
        assert (other, other.std_error) == (0.25, 0.011)


def test_draws_that_support_no_mode():
    x = np.random.default_rng(3).standard_t(1, (4, 50, 3))
    with pytest.warns(KmcWarning):
        gap = langevin_gap(x, n_basis=4)
    assert np.isnan(gap) or gap.std_error > 0


def test_laplacian_coordinates_of_normal_draws():
    """The parameters themselves, the widest first, with the inverse of their variances; then a
    polynomial.
    """
    x = np.random.default_rng(0).standard_normal((4, 1000, 2)) * [2.0, 1.0]
    modes = langevin_modes({"wide": x[..., 0], "narrow": x[..., 1]}, 3)
    errors = modes["std_error"].values
    assert np.all(
        np.abs(modes["eigenvalue"].values - [0.25, 0.5, 0.75]) < 3 * errors + [0, 0, 0.25]
    )
    assert np.all((errors > 0) & (errors < 0.2))
    assert modes["value"].dims == ("chain", "draw", "mode") and modes["value"].shape == (4, 1000, 3)
    assert list(modes["parameter"].values) == ["wide", "narrow"]
    correlation = np.abs(modes["correlation"].values)
    assert correlation[0, 0] > 0.98 and correlation[0, 1] < 0.1
    values = modes["value"].values.reshape(-1, 3)
    np.testing.assert_allclose(values.T @ values / 4000, np.eye(3), atol=1e-6)
    assert langevin_gap(x, n_basis=200) == pytest.approx(float(modes["eigenvalue"][0]), rel=0.05)


def test_the_order_of_draws_changes_the_errors_only():
    rng = np.random.default_rng(1)
    x = np.sort(rng.standard_normal((4, 500)), axis=1)[..., None]
    shuffled = rng.permuted(x, axis=1)
    sorted_, mixed = langevin_modes(x, 1, n_basis=40), langevin_modes(shuffled, 1, n_basis=40)
    assert float(sorted_["eigenvalue"][0]) == pytest.approx(float(mixed["eigenvalue"][0]), rel=0.1)
    assert sorted_["std_error"][0] > 3 * mixed["std_error"][0]


def test_degenerate_draws():
    x = np.random.default_rng(12).standard_normal((4, 100, 2))
    with pytest.raises(ValueError, match=r"'x\[1\]' never moves"):
        langevin_modes(x * [1.0, 0.0])
    with pytest.raises(ValueError, match="linear function of others"):
        langevin_modes(x[..., [0, 0]])
    with pytest.raises(ValueError, match="n_components=0"):
        langevin_modes(x, 0)
