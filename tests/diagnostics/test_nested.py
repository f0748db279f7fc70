"""Nested R-hat: the formula, its values for independent draws, and what runs of many chains make of
it.
"""

import numpy as np
import pytest

import kmc
from kmc.convergence import nested_rhat, worst_rhat
from tests.oracles import nested_rhat as oracle


@pytest.mark.parametrize("shape", [(3, 4, 5), (3, 1, 5), (5, 2, 1)])
def test_the_formula(shape):
    k, m, n = shape
    f = np.random.default_rng(1).standard_normal(shape) + np.arange(k)[:, None, None]
    found = nested_rhat(f.reshape(k * m, n, 1), np.repeat(np.arange(k), m))
    np.testing.assert_allclose(found, [oracle.nested_rhat(f.tolist())])


@pytest.mark.parametrize("chains", [2, 8])
def test_one_independent_draw_of_each_chain(chains):
    """The paper's limit without a shared start's influence: sqrt(1 + 1 / M)."""
    f = np.random.default_rng(2).standard_normal((5000 * chains, 1, 1))
    found = nested_rhat(f, np.repeat(np.arange(5000), chains))
    np.testing.assert_allclose(found, np.sqrt(1 + 1 / chains), rtol=0.02)


def test_labels_or_a_number_of_groups():
    draws = np.random.default_rng(3).standard_normal((12, 6, 2))
    expected = kmc.diagnostics.nested_rhat(draws, superchains=3)
    assert list(expected) == ["x[0]", "x[1]"]
    shuffled = np.random.default_rng(4).permutation(12)
    labels = np.repeat(["a", "b", "c"], 4)[shuffled]
    assert kmc.diagnostics.nested_rhat(draws[shuffled], superchains=labels) == pytest.approx(
        expected
    )


@pytest.mark.parametrize("superchains", [1, 5, [0] * 12, [0] * 5 + [1] * 7, [0, 1]])
def test_invalid_groups(superchains):
    with pytest.raises(ValueError, match="superchains.*expected"):
        kmc.diagnostics.nested_rhat(np.zeros((12, 6)), superchains=superchains)


def test_many_short_chains_of_a_run():
    """Plain R-hat of 256 chains of ten independent draws is 1.15; of chains that stay where they
    began, both tell.
    """
    rng = np.random.default_rng(5)
    draws = rng.standard_normal((256, 10, 2))
    assert worst_rhat(draws) < 1.02
    draws[:, :, 1] = np.where(rng.random(256) < 0.5, 5.0, -5.0)[:, None] + draws[:, :, 1]
    assert worst_rhat(draws) > 2
    draws[:, :, 1] = np.arange(256.0)[:, None]
    assert worst_rhat(draws) == np.inf
