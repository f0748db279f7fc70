from importlib.metadata import version

import numpy as np
import pytest

from kmc.diagnostics import kernel_stein_discrepancy, stein
from kmc.diagnostics.stein import wild_signs
from kmc.kernels import Gaussian, InverseMultiquadric, Matern52
from kmc.scores import GaussianScore
from tests.oracles import stein as oracle

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 2))


def standard(x):
    """The score of N(0, I)."""
    return -x


def autoregressive(rng, chains, draws, correlation):
    """Chains with stationary law N(0, 1), (chains, draws, 1)."""
    x = rng.standard_normal((chains, draws, 1))
    for t in range(1, draws):
        x[:, t] = correlation * x[:, t - 1] + np.sqrt(1 - correlation**2) * x[:, t]
    return x


def results(posterior):
    """What ArviZ holds results in, before version 1 and from there on."""
    import xarray

    dataset = xarray.Dataset(posterior)
    if int(version("arviz").split(".")[0]) < 1:
        import arviz

        return arviz.InferenceData(posterior=dataset)
    return xarray.DataTree.from_dict({"posterior": dataset})


def test_the_statistics_are_their_definitions(monkeypatch):
    monkeypatch.setattr(stein, "BLOCK", 7)
    found = kernel_stein_discrepancy(X, standard, bandwidth=1.5, n_bootstrap=0)

    def k(x, y):
        return (1 + np.sum((x - y) ** 2) / 1.5**2) ** -0.5

    values = oracle.matrix(k, X, -X)
    assert found.u_statistic == pytest.approx(oracle.u_statistic(values), abs=1e-6)
    assert found.v_statistic == pytest.approx(oracle.v_statistic(values), abs=1e-6)
    assert found.discrepancy == pytest.approx(np.sqrt(found.v_statistic))
    assert np.isnan(found.p_value) and found.kernel == InverseMultiquadric(1.5)


@pytest.mark.parametrize("shift", [0.0, 0.5])
def test_the_discrepancy_of_a_shifted_gaussian(shift):
    """KSD² = E[<s_p - s_q, s_p - s_q> k] = shift² E k(x, y) = shift² / √(1 + 2/h²) in one
    dimension.
    """
    expected = shift**2 / np.sqrt(1 + 2 / 0.8**2)
    found = []
    for seed in range(40):
        x = np.random.default_rng(seed).standard_normal((250, 1)) + shift
        found.append(
            kernel_stein_discrepancy(x, standard, kernel=Gaussian(0.8), n_bootstrap=0).u_statistic
        )
    assert abs(np.mean(found) - expected) < 4 * np.std(found) / np.sqrt(40)


def test_blocks_make_no_difference(monkeypatch):
    one = kernel_stein_discrepancy(X, standard, random_state=0)
    monkeypatch.setattr(stein, "BLOCK", 16)
    two = kernel_stein_discrepancy(X, standard, random_state=0)
    assert one.u_statistic == pytest.approx(two.u_statistic) and one.p_value == two.p_value


def test_the_bootstrap_is_its_definition():
    found = kernel_stein_discrepancy(X, standard, n_bootstrap=50, random_state=3)
    values = stein.stein_kernel(found.kernel, X, -X, X, -X)
    signs = wild_signs((1, 40), 50, found.autocorrelation_time, np.random.default_rng(3))
    pairs = [(i, j) for i in range(40) for j in range(40)]
    bootstrapped = [
        sum(w[i] * w[j] * values[i, j] for i, j in pairs) for w in signs.T.astype(float)
    ]
    assert found.p_value == (1 + np.sum(np.array(bootstrapped) >= values.sum() - 1e-9)) / 51


@pytest.mark.parametrize(("time", "correlation"), [(1.0, 0.0), (3.0, 1 - 2 / 42)])
def test_signs_are_a_markov_chain_in_each_chain(time, correlation):
    signs = (
        wild_signs((2, 500), 300, time, np.random.default_rng(0)).reshape(2, 500, 300).astype(float)
    )
    assert set(np.unique(signs)) == {-1.0, 1.0}
    effective = 300 * 1000 * (1 - correlation) / (1 + correlation)
    assert abs(signs.mean()) < 4 / np.sqrt(effective)
    assert np.mean(signs[:, 1:] * signs[:, :-1]) == pytest.approx(
        correlation, abs=4 / np.sqrt(300 * 998)
    )
    assert abs(np.mean(signs[0] * signs[1])) < 4 / np.sqrt(effective / 2)


def test_right_draws_pass_and_wrong_ones_do_not():
    p_values = [
        kernel_stein_discrepancy(
            np.random.default_rng(seed).standard_normal((150, 2)),
            standard,
            n_bootstrap=99,
            random_state=seed,
        ).p_value
        for seed in range(100)
    ]
    rejected = np.mean(np.array(p_values) <= 0.1)
    assert abs(rejected - 0.1) < 4 * np.sqrt(0.09 / 100)
    assert 0.3 < np.mean(p_values) < 0.7
    x = np.random.default_rng(0).standard_normal((300, 2))
    for wrong in [1.5 * x, x + 0.5, np.abs(x)]:
        assert kernel_stein_discrepancy(wrong, standard, random_state=0).p_value < 0.01


def test_autocorrelation_does_not_raise_false_alarms(monkeypatch):
    """Draws of a right chain with 19 draws per independent one; independent signs would reject
    nearly all of them.
    """
    chains = [autoregressive(np.random.default_rng(seed), 4, 250, 0.9) for seed in range(16)]
    options = {"n_bootstrap": 99, "random_state": 0}
    p_values = np.array([kernel_stein_discrepancy(x, standard, **options).p_value for x in chains])
    assert np.sum(p_values <= 0.1) <= 5  # 1.6 expected; more than 5 in one of 300 cases
    monkeypatch.setattr(stein, "autocorrelation_time", lambda values: 1.0)
    naive = np.array([kernel_stein_discrepancy(x, standard, **options).p_value for x in chains])
    assert np.mean(naive <= 0.1) > 0.5


def test_a_chain_with_the_wrong_spread_is_found():
    x = 1.6 * autoregressive(np.random.default_rng(1), 4, 1000, 0.7)
    found = kernel_stein_discrepancy(x, standard, random_state=0)
    assert found.p_value < 0.02
    assert 3 < found.autocorrelation_time < 12  # (1 + .7) / (1 - .7) = 5.7


@pytest.mark.arviz
def test_results_of_arviz_and_other_containers():
    x = RNG.standard_normal((2, 60, 3))
    expected = kernel_stein_discrepancy(x, standard, random_state=0)
    posterior = {"a": (("chain", "draw", "k"), x[..., :2]), "b": (("chain", "draw"), x[..., 2])}
    assert kernel_stein_discrepancy(results(posterior), standard, random_state=0) == expected
    assert (
        kernel_stein_discrepancy({"a": x[..., :2], "b": x[..., 2]}, standard, random_state=0)
        == expected
    )
    alone = kernel_stein_discrepancy(results(posterior), standard, var_names=["b"], n_bootstrap=0)
    assert (
        alone.u_statistic
        == kernel_stein_discrepancy(x[..., 2:], standard, n_bootstrap=0).u_statistic
    )
    listed = kernel_stein_discrepancy(X.tolist(), standard, n_bootstrap=0)
    assert listed.u_statistic == kernel_stein_discrepancy(X, standard, n_bootstrap=0).u_statistic


def test_the_score_of_an_estimator():
    model = GaussianScore().fit(X)
    one = kernel_stein_discrepancy(X, model, n_bootstrap=0)
    assert one.u_statistic == kernel_stein_discrepancy(X, model.gradient, n_bootstrap=0).u_statistic


def test_kernels_and_bandwidths():
    by_name = kernel_stein_discrepancy(X, standard, kernel="matern52", bandwidth=2.0, n_bootstrap=0)
    for kernel, bandwidth in [(Matern52(2.0), "median"), (Matern52(0.5), 4.0)]:
        assert (
            kernel_stein_discrepancy(
                X, standard, kernel=kernel, bandwidth=bandwidth, n_bootstrap=0
            )[:3]
            == by_name[:3]
        )


@pytest.mark.parametrize(
    ("data", "score", "options", "error", "message"),
    [
        (X[:3], standard, {}, ValueError, "expected at least one chain of four draws"),
        (X[:, 0], standard, {}, ValueError, r"data has shape \(40,\)"),
        (np.where(X > 1, np.nan, X), standard, {}, ValueError, "is not finite in chain 0"),
        (
            X,
            lambda x: x[:, 0],
            {},
            ValueError,
            r"score returned an array of shape \(40,\) for points of shape \(40, 2\)",
        ),
        (
            X,
            lambda x: x / 0.0 * 0.0,
            {},
            ValueError,
            r"score returned NaN or infinity at the point \[.*\] \(row 0\)",
        ),
        (X, 3.0, {}, TypeError, "score=3.0: expected a function of points"),
        (
            X,
            standard,
            {"bandwidth": "cv"},
            ValueError,
            "bandwidth='cv': expected 'median' or a positive number",
        ),
        (X, standard, {"bandwidth": 0.0}, ValueError, "bandwidth=0.0"),
        (
            X,
            standard,
            {"kernel": "exponential"},
            ValueError,
            "has 0 derivatives at coincident points",
        ),
        (
            X,
            standard,
            {"n_bootstrap": -1},
            ValueError,
            "n_bootstrap=-1: expected a whole number of at least 0",
        ),
        (np.ones((9, 2)), standard, {}, ValueError, "all 9 points are equal"),
    ],
)
def test_bad_input(data, score, options, error, message):
    with np.errstate(all="ignore"), pytest.raises(error, match=message):
        kernel_stein_discrepancy(data, score, **options)
