import pickle
import warnings

import numpy as np
import pytest
from scipy import linalg
from scipy.signal import lfilter
from sklearn.base import clone

from kmc.bases import UserFunctions
from kmc.errors import KmcWarning
from kmc.kernels import Gaussian, Metric
from kmc.spectral import TransitionOperator
from kmc.spectral.generator_selection import REGULARIZATIONS
from kmc.spectral.sections import whitened_sections
from tests.oracles import transition as oracle
from tests.sklearn_conventions import conventions

MATRIX = np.array([[0.9, 0.08, 0.02], [0.05, 0.9, 0.05], [0.1, 0.1, 0.8]])
EXACT = {"kernel": "gaussian", "bandwidth": 0.7, "regularization": 0.0, "n_components": 2}


def walk(matrix, n, seed):
    """Numbers of the states of a finite chain, (n, 1)."""
    rng = np.random.default_rng(seed)
    cumulative, x = np.cumsum(matrix, axis=1), [0]
    for u in rng.random(n - 1):
        x.append(int(np.searchsorted(cumulative[x[-1]], u)))
    return np.array(x, float)[:, None]


def autoregression(n, phi, seed, dim=1):
    """Stationary, of variance one."""
    noise = np.random.default_rng(seed).standard_normal((n, dim))
    noise[1:] *= np.sqrt(1 - phi**2)
    return lfilter([1.0], [1.0, -phi], noise, axis=0)


TRAJECTORIES = [walk(MATRIX, n, seed) for seed, n in enumerate((400, 90, 800))]


@pytest.mark.parametrize("lagtime", [1, 3])
def test_a_finite_chain_has_the_eigenvalues_of_its_symmetrized_counts(lagtime):
    """Three landmarks span all functions of three states."""
    operator = TransitionOperator(lagtime, **EXACT).fit(TRAJECTORIES)
    matrix = oracle.reversible_matrix(oracle.counts(TRAJECTORIES, 3, lagtime))
    truth = np.sort(linalg.eigvals(matrix).real)[::-1][1:]
    np.testing.assert_allclose(operator.eigenvalues_, truth, rtol=1e-9)
    np.testing.assert_allclose(operator.timescales_, -lagtime / np.log(truth), rtol=1e-8)
    assert operator.spectral_gap_ == pytest.approx(1 - truth[0])
    assert operator.rank_ == 3
    states = np.arange(3.0)[:, None]
    modes = operator.transform(states)
    np.testing.assert_allclose(matrix @ modes, modes * truth, atol=1e-9)


def test_weights_are_those_of_the_first_of_each_pair():
    rng = np.random.default_rng(0)
    weights = [rng.random(len(x)) for x in TRAJECTORIES]
    matrix = oracle.reversible_matrix(oracle.counts(TRAJECTORIES, 3, 1, np.concatenate(weights)))
    operator = TransitionOperator(**EXACT).fit(TRAJECTORIES, weights=weights)
    np.testing.assert_allclose(
        operator.eigenvalues_, np.sort(linalg.eigvals(matrix).real)[::-1][1:], rtol=1e-9
    )


def test_a_chain_that_is_not_reversible_has_the_singular_values_of_its_counts():
    counts = oracle.counts(TRAJECTORIES, 3, 1)
    operator = TransitionOperator(reversible=False, **EXACT).fit(TRAJECTORIES)
    np.testing.assert_allclose(operator.singular_values_, oracle.singular_values(counts), rtol=1e-9)
    matrix = counts / counts.sum(axis=1, keepdims=True)
    eigenvalues = np.sort(linalg.eigvals(matrix).real)[::-1][1:]
    np.testing.assert_allclose(np.sort(operator.eigenvalues_.real)[::-1], eigenvalues, rtol=1e-8)


def test_a_rotation_has_no_time_scales():
    """0 → 1 → 2 → 0 most of the time: eigenvalues with an imaginary part."""
    matrix = np.full((3, 3), 0.1) + 0.7 * np.roll(np.eye(3), 1, axis=1)
    with pytest.warns(KmcWarning, match="2 of 2 eigenvalues are complex or outside"):
        operator = TransitionOperator(reversible=False, **EXACT).fit(walk(matrix, 2000, 1))
    assert np.all(np.abs(operator.eigenvalues_.imag) > 0.3)
    assert np.all(np.isnan(operator.timescales_))
    assert 0 < operator.spectral_gap_ < 1


def test_an_alternating_chain_has_no_time_scale():
    x = walk(np.array([[0.1, 0.9], [0.9, 0.1]]), 500, 2)
    with pytest.warns(KmcWarning, match="have no time scale"):
        operator = TransitionOperator(**(EXACT | {"n_components": 1})).fit(x)
    assert operator.eigenvalues_[0] < -0.6
    assert np.isnan(operator.timescales_[0])
    assert operator.singular_values_[0] == pytest.approx(-operator.eigenvalues_[0])


def test_an_autoregression_has_the_powers_of_its_coefficient():
    """Eigenfunctions are Hermite polynomials (Mehler): no setting is given."""
    x = autoregression(40_000, 0.9, 3)
    operator = TransitionOperator(n_components=3, n_basis=60, random_state=0).fit(x)
    # three standard errors
    np.testing.assert_allclose(operator.eigenvalues_, 0.9 ** np.arange(1, 4), atol=0.02)
    grid = np.linspace(-2, 2, 50)[:, None]
    first, second = operator.transform(grid)[:, :2].T
    assert abs(np.corrcoef(first, grid[:, 0])[0, 1]) > 0.99
    assert abs(np.corrcoef(second, grid[:, 0] ** 2)[0, 1]) > 0.98
    along = operator.transform(x)
    np.testing.assert_allclose(along.mean(axis=0), 0.0, atol=1e-3)
    # the ends count once, not twice
    np.testing.assert_allclose(along.T @ along / len(x), np.eye(3), atol=2e-3)


def test_candidates_are_compared_by_the_held_out_score():
    x = autoregression(160, 0.8, 4)
    operator = TransitionOperator(
        n_components=2, bandwidth=[0.5, 2.0], regularization=[1e-4, 1e-1], landmarks=x[::20]
    ).fit(x)
    table, fold_of_row = operator.cv_results_, np.arange(160) * 16 // 160 % 4
    for bandwidth, epsilon, score in zip(
        table["bandwidth"], table["regularization"], table["score"]
    ):
        basis = whitened_sections("gaussian", bandwidth, x[::20])
        literal = oracle.held_out_score(basis, [x], 1, fold_of_row, epsilon, 2)
        assert score == pytest.approx(literal, rel=1e-6)
    chosen = (table["bandwidth"] == operator.bandwidth_) & (
        table["regularization"] == operator.regularization_
    )
    # or less than a standard error behind
    assert table["score"][chosen][0] > table["score"].max() - 0.1


def test_nothing_is_compared_when_nothing_is_open():
    assert TransitionOperator(**EXACT).fit(TRAJECTORIES).cv_results_ == {}
    operator = TransitionOperator(n_components=2, random_state=0).fit(TRAJECTORIES[2])
    assert len(operator.cv_results_["score"]) == 5 * len(REGULARIZATIONS)


@pytest.mark.parametrize("reversible", [True, False])
def test_score_is_that_of_deeptime(reversible):
    """Of the finite chain with its indicator functions: the modes of one half on the other."""
    decomposition = pytest.importorskip("deeptime.decomposition")
    one, other = walk(MATRIX, 1000, 5), walk(MATRIX, 1000, 6)
    operator = TransitionOperator(reversible=reversible, **EXACT).fit(one)

    def features(x):
        return np.eye(3)[x[:, 0].astype(int)][:, :2]

    kind = decomposition.TICA if reversible else decomposition.VAMP
    mine, theirs = (
        kind(lagtime=1, epsilon=1e-12).fit(features(x)).fetch_model() for x in (one, other)
    )
    np.testing.assert_allclose(operator.singular_values_, mine.singular_values, rtol=1e-6)
    assert operator.score(other) == pytest.approx(mine.score(2, test_model=theirs), rel=1e-5)
    assert operator.score(one) == pytest.approx(1 + np.sum(operator.singular_values_**2))


@pytest.mark.parametrize("reversible", [True, False])
def test_streams_give_the_fit_of_the_array(reversible, tmp_path):
    x = autoregression(4096 * 4, 0.9, 7, dim=2)
    options = {
        "n_components": 3,
        "landmarks": x[::400],
        "bandwidth": [1.0, 2.0],
        "reversible": reversible,
    }
    options["kernel"] = Gaussian()  # no metric is learned, which needs data that can be read again
    whole = TransitionOperator(5, **options, regularization=1e-4).fit(x)
    np.save(tmp_path / "x.npy", x)
    sources = [
        [x],
        np.load(tmp_path / "x.npy", mmap_mode="r"),
        (x[i : i + 1000] for i in range(0, len(x), 1000)),
        [iter(np.array_split(x, 7))],
    ]
    for source in sources:
        streamed = TransitionOperator(5, **options, regularization=1e-4).fit(source)
        assert streamed.bandwidth_ == whole.bandwidth_
        np.testing.assert_allclose(streamed.singular_values_, whole.singular_values_, rtol=1e-7)
        np.testing.assert_allclose(streamed.transform(x[:9]), whole.transform(x[:9]), atol=1e-5)


def test_trajectories_are_not_joined():
    """Two that stay apart, and the one pair that joining them would add."""
    parts = [autoregression(300, 0.5, 9), 50.0 + autoregression(300, 0.5, 10)]
    options = {"n_components": 2, "bandwidth": 20.0, "regularization": 1e-8, "random_state": 0}
    apart = TransitionOperator(**options).fit(parts)
    joined = TransitionOperator(**options).fit(np.concatenate(parts))
    assert apart.eigenvalues_[0] > 1 - 2e-4  # of the function that is -1 on one and 1 on the other
    # one change of sign in 599 pairs: 1 - 2/599
    assert joined.eigenvalues_[0] == pytest.approx(1 - 2 / 599, abs=2e-4)
    assert [len(part) for part in apart.transform(parts)] == [300, 300]


def test_a_shift_and_a_scale_change_nothing():
    x = autoregression(3000, 0.9, 11, dim=2)
    one = TransitionOperator(n_components=3, random_state=0).fit(x)
    two = TransitionOperator(n_components=3, random_state=0).fit(1e-3 * x + 1e4)
    np.testing.assert_allclose(two.eigenvalues_, one.eigenvalues_, atol=1e-5)


def test_fewer_modes_than_asked_for():
    with pytest.warns(KmcWarning, match="n_components=10: the samples determine only 2 modes"):
        operator = TransitionOperator(**(EXACT | {"n_components": 10})).fit(TRAJECTORIES)
    assert operator.transform(TRAJECTORIES[0]).shape == (400, 2)
    assert list(operator.get_feature_names_out()) == ["transitionoperator0", "transitionoperator1"]
    with pytest.raises(ValueError, match="input_features should have length"):
        operator.get_feature_names_out(["a"] * 7)


@pytest.mark.parametrize(
    ("options", "data", "weights", "error", "message"),
    [
        (
            {"lagtime": 0},
            TRAJECTORIES,
            None,
            ValueError,
            "lagtime=0: expected a whole number of at least 1",
        ),
        (
            {"lagtime": 800},
            TRAJECTORIES,
            None,
            ValueError,
            "lagtime=800: n_samples=800 in the longest trajectory",
        ),
        ({"n_components": 0}, TRAJECTORIES, None, ValueError, "n_components=0"),
        ({"n_basis": 1}, TRAJECTORIES, None, ValueError, "n_basis=1"),
        ({"bandwidth": -1.0}, TRAJECTORIES, None, ValueError, "bandwidth=-1.0"),
        ({"regularization": "some"}, TRAJECTORIES, None, ValueError, "regularization='some'"),
        ({"landmarks": "best"}, TRAJECTORIES, None, ValueError, "landmarks='best'"),
        ({"reversible": "yes"}, TRAJECTORIES, None, TypeError, "reversible='yes'"),
        (
            {"random_state": "seed"},
            TRAJECTORIES,
            None,
            (TypeError, ValueError),
            "random_state='seed'",
        ),
        ({}, np.ones((50, 2)), None, ValueError, "all 50 points are equal"),
        ({"bandwidth": 1.0}, np.ones((50, 2)), None, ValueError, "no function of the basis varies"),
        (
            {},
            [np.zeros((9, 2)), np.zeros((9, 3))],
            None,
            ValueError,
            r"X has trajectories of \[2, 3\] columns",
        ),
        ({}, TRAJECTORIES[0], -np.ones(400), ValueError, "weights: expected non-negative"),
    ],
)
def test_bad_input(options, data, weights, error, message):
    with pytest.raises(error, match=message):
        TransitionOperator(**options).fit(data, weights=weights)


@pytest.mark.filterwarnings("ignore:.*have no time scale:kmc.errors.KmcWarning")
def test_short_trajectories_are_left_out_with_a_warning():
    with pytest.warns(
        KmcWarning, match="lagtime=100: 1 of 3 trajectories are not longer than it and are left out"
    ):
        # nothing is left of the chain after 100 steps
        operator = TransitionOperator(100, **EXACT).fit(TRAJECTORIES)
    longer = TransitionOperator(100, **EXACT).fit([TRAJECTORIES[0], TRAJECTORIES[2]])
    np.testing.assert_allclose(operator.eigenvalues_, longer.eigenvalues_, rtol=1e-9)


@pytest.mark.filterwarnings("ignore:.*have no time scale:kmc.errors.KmcWarning")
def test_a_chain_that_moves_only_once():
    """Most folds hold no change, and so do the other folds together where it is left out."""
    for change in (1, 50, 99):
        x = np.repeat([[0.0], [1.0]], [change, 100 - change], axis=0)
        operator = TransitionOperator(n_components=1).fit(x)
        share = (2 * change - 1) / 198  # of the ends of pairs that are before the change
        assert operator.eigenvalues_[0] == pytest.approx(
            1 - 0.5 / 99 / (share * (1 - share)), abs=1e-6
        )


def test_a_few_samples_are_enough_for_a_fit():
    for n in (3, 4, 5, 8, 13, 19):
        x = np.random.default_rng(n).standard_normal((n, 2))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", KmcWarning)
            assert np.all(
                np.isfinite(TransitionOperator(n_components=1, random_state=0).fit(x).eigenvalues_)
            )


@pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning")
@pytest.mark.parametrize(
    ("estimator", "check"),
    conventions(
        [
            TransitionOperator(n_components=2, n_basis=8),
            TransitionOperator(
                n_components=2, n_basis=8, bandwidth=2.0, regularization=1e-3, reversible=False
            ),
        ]
    ),
)
def test_conventions(estimator, check):
    check(estimator)


@pytest.mark.parametrize("reversible", [True, False])
def test_models_of_deeptime_have_these_modes(reversible):
    validation = pytest.importorskip("deeptime.util.validation")
    operators = [
        TransitionOperator(lag, reversible=reversible, **EXACT).fit(TRAJECTORIES)
        for lag in (1, 2, 4)
    ]
    models = [operator.to_deeptime() for operator in operators]
    first, model = operators[0], pickle.loads(pickle.dumps(models[0]))
    np.testing.assert_array_equal(
        model.transform(TRAJECTORIES[0]), first.transform(TRAJECTORIES[0])
    )
    np.testing.assert_allclose(model.singular_values, np.abs(first.singular_values_))
    assert model.score(2) == pytest.approx(1 + np.sum(first.singular_values_**2))
    found = validation.implied_timescales(models)
    np.testing.assert_array_equal(found.lagtimes, [1, 2, 4])
    if reversible:
        np.testing.assert_allclose(
            found.timescales_for_process(0), [each.timescales_[0] for each in operators]
        )
    counts = oracle.counts(TRAJECTORIES, 3, 1)
    counts = counts + counts.T if reversible else counts
    states, matrix = np.arange(3.0)[:, None], counts / counts.sum(axis=1, keepdims=True)
    later = model.timelagged_obs(states)  # functions of the state a lagtime later
    np.testing.assert_allclose(model.forward(states), matrix @ later, atol=1e-8)


def test_features_of_a_model_of_deeptime_are_a_basis():
    decomposition = pytest.importorskip("deeptime.decomposition")
    x = autoregression(20_000, 0.9, 4, dim=3)
    tica = decomposition.TICA(lagtime=1, dim=2).fit_fetch(x)
    functions = UserFunctions(tica.transform, size=tica.output_dimension)
    operator = TransitionOperator(n_components=2, basis=functions, random_state=0).fit(x)
    np.testing.assert_allclose(operator.timescales_, tica.timescales(2), rtol=1e-3)
    truth = -1 / np.log(0.9)
    assert np.all(np.abs(operator.timescales_ - truth) < 4 * operator.timescale_errors_)
    assert operator.landmarks_ is None and np.isnan(operator.bandwidth_) and operator.rank_ == 2
    assert operator.memberships(x).shape == (20_000, 2)
    again = pickle.loads(pickle.dumps(clone(operator).fit(x)))
    np.testing.assert_array_equal(again.eigenvalues_, operator.eigenvalues_)


def test_given_functions_may_have_any_scale_and_too_few_are_told():
    x = autoregression(4000, 0.9, 5)
    fits = [
        TransitionOperator(
            n_components=3, basis=UserFunctions(lambda x, s=s: s * np.hstack([x, x**2]), size=2)
        )
        for s in (1.0, 1e-6)
    ]
    with pytest.warns(
        KmcWarning, match="only 2 modes, and there are 2; more functions would give more"
    ):
        one, other = (fit.fit(x).eigenvalues_ for fit in fits)
    np.testing.assert_allclose(one, other, rtol=1e-9)
    with pytest.raises(ValueError, match="basis='sections': expected"):
        TransitionOperator(basis="sections").fit(x)
    with pytest.raises(
        TypeError, match=r"basis=3: expected an object of kmc.bases, or one with size, values\(x\)"
    ):
        TransitionOperator(basis=3).fit(x)


def hopping(n, seed, others):
    """One coordinate hops between two wells on a time scale of 100 steps; others forget sooner."""
    rng = np.random.default_rng(seed)
    side = np.where(np.cumsum(rng.random(n) < 0.005) % 2, 1.0, -1.0)
    return np.column_stack(
        [side + 0.25 * rng.standard_normal(n), autoregression(n, 0.9, seed + 1, others)]
    )


@pytest.mark.filterwarnings("ignore:.*are complex")
@pytest.mark.parametrize("reversible", [True, False])
def test_a_slow_coordinate_is_found_among_others(reversible):
    """A kernel that weighs all coordinates alike is too wide for the slow one, of which its
    function is linear.
    """
    x, truth = hopping(20_000, 3, 7), -1 / np.log(0.99)
    options = {
        "lagtime": 5,
        "n_components": 8,
        "n_basis": 100,
        "reversible": reversible,
        "random_state": 0,
    }
    operator, plain = (TransitionOperator(bandwidth=b, **options).fit(x) for b in ("cv", "median"))
    assert operator.timescales_[0] > 0.7 * truth
    assert plain.timescales_[0] < 0.5 * truth
    share = operator.metric_[0] ** 2 / np.sum(operator.metric_**2)
    assert plain.metric_ is None and share.argmax() == 0 and share.max() > 10 * np.sort(share)[-2]
    assert operator.cv_results_["metric"].sum() == 3 * len(REGULARIZATIONS)
    best = operator.cv_results_["bandwidth"] == operator.bandwidth_
    assert best.sum() == 2 * len(REGULARIZATIONS)
    mode = operator.transform(x)[:, 0]
    assert abs(np.corrcoef(mode, np.sign(x[:, 0]))[0, 1]) > 0.95


def test_the_metric_does_not_depend_on_units():
    x = hopping(6000, 4, 2)
    units = np.array([[2.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.0, 0.3, 1.5]])
    options = {"lagtime": 5, "n_components": 3, "n_basis": 50, "random_state": 0}
    one, other = (TransitionOperator(**options).fit(data) for data in (x, x @ units))
    assert one.metric_ is not None and other.metric_ is not None
    np.testing.assert_allclose(one.timescales_[0], other.timescales_[0], rtol=0.05)


def test_a_kernel_object_keeps_its_metric():
    x = hopping(3000, 5, 2)
    given = Metric(Gaussian(), [1.0, 0.1, 0.1])
    operator = TransitionOperator(5, 3, kernel=given, n_basis=50, random_state=0).fit(x)
    assert operator.metric_ is None and len(operator.cv_results_["score"]) == 5 * len(
        REGULARIZATIONS
    )
