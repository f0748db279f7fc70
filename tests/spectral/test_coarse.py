import numpy as np
import pytest
from scipy import linalg

from kmc.spectral import TransitionOperator
from tests.oracles import transition as oracle
from tests.spectral.test_transition import EXACT, MATRIX, TRAJECTORIES, autoregression, walk

STATES = np.arange(3.0)[:, None]


@pytest.mark.parametrize("reversible", [True, False])
def test_the_chain_of_sets_is_that_of_the_states(reversible):
    operator = TransitionOperator(reversible=reversible, **EXACT).fit(TRAJECTORIES)
    counts = oracle.counts(TRAJECTORIES, 3, 1)
    matrix = (
        oracle.reversible_matrix(counts)
        if reversible
        else counts / counts.sum(axis=1, keepdims=True)
    )
    order = operator.memberships(STATES, 3).argmax(axis=0)  # the state of each set
    matrix = matrix[np.ix_(order, order)]
    chain = operator.coarse_grain(3)
    np.testing.assert_allclose(chain.transition_matrix, matrix, atol=1e-8)
    np.testing.assert_allclose(chain.populations @ matrix, chain.populations, atol=1e-9)
    np.testing.assert_allclose(linalg.expm(chain.rates), matrix, atol=1e-8)
    times = chain.passage_times
    for target in range(3):  # one step, and the rest from there
        after = 1 + matrix @ times[:, target]
        np.testing.assert_allclose(
            np.delete(times[:, target], target), np.delete(after, target), rtol=1e-8
        )
    committor = chain.committor(0, 2)
    assert committor[1] == pytest.approx(matrix[1] @ committor)
    np.testing.assert_allclose(
        operator.committor(STATES, 0, 2, 3), committor[np.argsort(order)], atol=1e-8
    )
    for errors in (chain.transition_errors, chain.population_errors):
        assert np.all((errors > 1e-4) & (errors < 0.2))
    with pytest.raises(ValueError, match="target=3: expected a set, a whole number from 0 to 2"):
        chain.committor(0, 3)
    with pytest.raises(ValueError, match="source=1: expected a set other than the target"):
        chain.committor(1, 1)


def test_errors_of_time_scales():
    """Two standard errors hold the truth, 9.49, in most of twelve fits, and are not wide."""
    inside, options = (
        0,
        {"n_components": 1, "n_basis": 20, "bandwidth": 2.0, "regularization": 1e-6},
    )
    for seed in range(12):
        operator = TransitionOperator(random_state=0, **options).fit(
            autoregression(4000, 0.9, seed)
        )
        inside += abs(operator.timescales_[0] - 9.49) < 2 * operator.timescale_errors_[0]
        assert 0.1 < operator.timescale_errors_[0] < 3
    assert inside >= 9


def test_errors_of_passage_times_and_committors():
    """As large as the differences between sixteen independent chains, within a factor of two."""
    found, errors = [], []
    for seed in range(16):
        operator = TransitionOperator(**EXACT).fit(walk(MATRIX, 1500, seed))
        # of each state
        chain, sets = operator.coarse_grain(3), operator.memberships(STATES, 3).argmax(axis=1)
        found.append(
            [chain.passage_times[sets[0], sets[2]], chain.committor(sets[0], sets[2])[sets[1]]]
        )
        errors.append(
            [
                chain.passage_errors[sets[0], sets[2]],
                chain.committor_errors(sets[0], sets[2])[sets[1]],
            ]
        )
        assert chain.committor_errors(0, 2)[[0, 2]].tolist() == [0.0, 0.0]
    ratio = np.mean(errors, axis=0) / np.std(found, axis=0, ddof=1)
    assert np.all((ratio > 0.5) & (ratio < 2.0))
