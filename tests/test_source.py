import numpy as np
import pytest

from kmc.bases import Monomials
from kmc.estimator import Estimator
from kmc.forms import accumulate, accumulate_folds
from kmc.source import folds, look, open_source

RNG = np.random.default_rng(0)
X = RNG.standard_normal((5000, 2))
WEIGHTS = RNG.uniform(size=5000)
SOURCES = {
    "array": lambda a: a,
    "list of arrays": lambda a: [a[:100], a[100:]],
    "iterator": lambda a: iter([a[:3000], a[3000:]]),
    "list with an iterator": lambda a: [iter([a[:300], a[300:3000]]), a[3000:]],
    "generator of small blocks": lambda a: (a[k : k + 7] for k in range(0, len(a), 7)),
}


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("most", [1, 1000, 10_000])
def test_a_look_leaves_all_samples_in_four_folds(kind, most):
    source = open_source(Estimator(), SOURCES[kind](X), SOURCES[kind](WEIGHTS))
    sample, source = look(source, most, np.random.default_rng(1))
    assert len(sample.x) == min(most, len(X))
    rows = [np.flatnonzero(np.all(x == X, axis=1))[0] for x in sample.x[:20]]
    np.testing.assert_array_equal(sample.weights[:20], WEIGHTS[rows])
    points, labels = folds(source, 4)
    parts = accumulate_folds(Monomials(2, 2), points, ("mass",), labels, weights=source.weights)
    assert len(parts) == 4
    assert all(part.weight > 0.15 * WEIGHTS.sum() for part in parts)
    whole = accumulate(Monomials(2, 2), X, ("mass",), weights=WEIGHTS)
    np.testing.assert_allclose((parts[0] + parts[1] + parts[2] + parts[3]).mass, whole.mass)


def test_rows_of_zero_weight_do_not_count():
    sample, _ = look(
        open_source(Estimator(), X, np.arange(5000) % 2), 100, np.random.default_rng(2)
    )
    assert np.array_equal(sample.counted(), sample.x[sample.weights > 0])
