import numpy as np
import pytest

from kmc.errors import KmcWarning
from kmc.spectral import TransitionOperator
from tests.oracles import transition as oracle
from tests.spectral.test_transition import EXACT, MATRIX, TRAJECTORIES, autoregression, walk

STATES = np.arange(3.0)[:, None]


def test_sets_of_a_finite_chain_are_its_states():
    operator = TransitionOperator(**EXACT).fit(TRAJECTORIES)
    found = operator.memberships(STATES, 3)
    np.testing.assert_allclose(np.sort(found, axis=1), [[0.0, 0.0, 1.0]] * 3, atol=1e-9)
    assert len(set(found.argmax(axis=1))) == 3


def test_sets_of_points():
    """The set of a point is the one with its largest membership; trajectories in a list have one
    array each.
    """
    operator = TransitionOperator(**EXACT).fit(TRAJECTORIES)
    found = operator.predict(STATES, 3)
    assert sorted(found) == [0, 1, 2]
    np.testing.assert_array_equal(found, operator.memberships(STATES, 3).argmax(axis=1))
    parts = operator.predict([STATES, STATES[::-1]], 3)
    np.testing.assert_array_equal(parts[1], parts[0][::-1])


def test_gradients_of_modes():
    x = np.column_stack([autoregression(600, 0.9, 1).ravel(), autoregression(600, 0.3, 2).ravel()])
    operator = TransitionOperator(n_components=2, n_basis=30, bandwidth=2.0, random_state=0).fit(x)
    points, step = x[:5], 1e-5
    found = operator.gradient(points)
    assert found.shape == (5, 2, 2)
    for j, shift in enumerate(step * np.eye(2)):
        difference = (operator.transform(points + shift) - operator.transform(points - shift)) / (
            2 * step
        )
        np.testing.assert_allclose(found[:, :, j], difference, rtol=1e-5, atol=1e-7)


def test_two_wells():
    """A slow jump between two places with noise around each: memberships are near 0 or 1."""
    place = walk(np.array([[0.995, 0.005], [0.005, 0.995]]), 5000, 3)
    x = 4.0 * place + autoregression(5000, 0.3, 4)
    operator = TransitionOperator(n_components=2, n_basis=60, random_state=0).fit(x)
    found = operator.memberships(x, 2)
    agreement = np.mean(found.argmax(axis=1) == place[:, 0])
    # noise of one and a distance of four: 2.3 % are beyond the middle
    assert max(agreement, 1 - agreement) > 0.96
    assert np.all(np.abs(found - 0.5) < 0.8)


@pytest.mark.parametrize("reversible", [True, False])
def test_the_chapman_kolmogorov_test_of_a_finite_chain(reversible):
    """Predictions are powers of the matrix of counts, estimates its counterpart at the longer
    lagtime.
    """
    operator = TransitionOperator(reversible=reversible, **EXACT).fit(TRAJECTORIES)
    test = operator.ck_test(TRAJECTORIES, n_sets=3, multiples=4)
    order = operator.memberships(STATES, 3).argmax(axis=0)  # the state of each set

    def matrix(lagtime):
        counts = oracle.counts(TRAJECTORIES, 3, lagtime)
        whole = (
            oracle.reversible_matrix(counts)
            if reversible
            else counts / counts.sum(axis=1, keepdims=True)
        )
        return whole[np.ix_(order, order)]

    np.testing.assert_array_equal(test.lagtimes, [1, 2, 3, 4])
    for k in range(4):
        np.testing.assert_allclose(
            test.predicted[k], np.linalg.matrix_power(matrix(1), k + 1), atol=1e-8
        )
        np.testing.assert_allclose(test.estimated[k], matrix(k + 1), atol=1e-8)
    assert test.largest_error() < 4 * test.std_error[1:].max()


def test_standard_errors_are_of_the_right_size():
    """Against the spread over independent chains."""
    operator = TransitionOperator(**EXACT).fit(TRAJECTORIES)
    tests = [
        operator.ck_test(walk(MATRIX, 1500, seed), n_sets=3, multiples=1) for seed in range(40)
    ]
    spread = np.std([test.estimated[0] for test in tests], axis=0)
    claimed = np.mean([test.std_error[0] for test in tests], axis=0)
    # a standard deviation from 40 is known to 11 %
    np.testing.assert_allclose(claimed, spread, rtol=0.5)


def test_a_chain_with_memory_fails_the_test():
    """Every state of a chain held for two steps: at lagtime one it is not Markov."""
    x = np.repeat(walk(np.array([[0.6, 0.4], [0.4, 0.6]]), 4000, 5), 2, axis=0)
    operator = TransitionOperator(**(EXACT | {"n_components": 1})).fit(x)
    test = operator.ck_test(x, multiples=2)
    assert test.largest_error() > 5 * test.std_error.max()  # (0.6² - 0.2) / 2 = 0.08


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_sets": 1}, ValueError, "n_sets=1: expected a whole number from 2 to 3"),
        ({"n_sets": 4}, ValueError, "n_sets=4: expected a whole number from 2 to 3"),
        ({"multiples": 0}, ValueError, "multiples=0"),
        ({"multiples": 900}, ValueError, "lagtime=900: n_samples=800 in the longest"),
        ({"X": iter(TRAJECTORIES)}, TypeError, "can be read only once"),
    ],
)
def test_bad_input(options, error, message):
    operator = TransitionOperator(**EXACT).fit(TRAJECTORIES)
    with pytest.raises(error, match=message):
        operator.ck_test(**({"X": TRAJECTORIES} | options))


def test_a_rare_state_is_found():
    """Half a per cent of the samples; among 200 landmarks it is missing in one of three fits."""
    matrix = np.array([[0.99, 0.009, 0.001], [0.009, 0.99, 0.001], [0.09, 0.09, 0.82]])
    for seed in range(3):
        place = walk(matrix, 20_000, seed)
        x = 5.0 * place + 0.3 * np.random.default_rng(seed).standard_normal(place.shape)
        operator = TransitionOperator(
            n_components=2, n_basis=40, bandwidth=2.0, regularization=1e-6, random_state=seed
        )
        found = operator.fit(x).memberships(x, 3).argmax(axis=1)
        assert all(np.mean(found == found[place[:, 0] == k][0]) < 0.7 for k in range(3))
        assert np.mean(found[place[:, 0] == 2] == found[place[:, 0] == 2][0]) > 0.95
        assert found[place[:, 0] == 2][0] not in (
            np.bincount(found[place[:, 0] == k]).argmax() for k in (0, 1)
        )


def test_far_from_the_data():
    operator = TransitionOperator(**EXACT).fit(TRAJECTORIES)
    with pytest.warns(
        KmcWarning, match="1 of 2 points in X are farther than .* from all landmarks"
    ):
        operator.transform([[1.0], [500.0]])
