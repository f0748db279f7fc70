import numpy as np
import pytest

from kmc.diagnostics import langevin_gap, langevin_modes


def test_laplacian_coordinates_of_normal_draws():
    """The parameters themselves, the widest first, with the inverse of their variances; then a polynomial."""
    x = np.random.default_rng(0).standard_normal((4, 1000, 2)) * [2.0, 1.0]
    modes = langevin_modes({"wide": x[..., 0], "narrow": x[..., 1]}, 3)
    errors = modes["std_error"].values
    assert np.all(np.abs(modes["eigenvalue"].values - [0.25, 0.5, 0.75]) < 3 * errors + [0, 0, 0.25])
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
