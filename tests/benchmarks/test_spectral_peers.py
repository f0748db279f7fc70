import numpy as np
import pytest
from spectral_peers import PACKAGES, TASKS, best, compare, missed, normal, squared


def test_what_functions_span():
    angle = np.linspace(0.0, 2.0 * np.pi, 100, endpoint=False)
    truth = np.column_stack([np.cos(angle), np.sin(angle)])
    turned = np.column_stack([np.cos(angle - 1.0), 3.0 + np.sin(angle - 1.0)])
    assert missed(turned, truth) == pytest.approx(0.0, abs=1e-12)
    assert missed(turned[:, :1], truth) == pytest.approx(0.5)


def test_the_best_setting_and_what_is_not_finite():
    estimates = (np.array([value]) for value in (3.0, np.nan, 1.0))
    assert best(estimates, lambda found: found[0])[0] == 1.0


def test_squared_distances():
    x = np.array([[0.0, 0.0], [3.0, 4.0]])
    np.testing.assert_allclose(squared(x), [[0.0, 25.0], [25.0, 0.0]])


def test_peers_that_are_not_there_are_left_out():
    pytest.importorskip("sklearn")
    lines = compare("N(0, I3), 6 eigenvalues: mean relative error", 1, 300, {"kmc"})
    assert [line[1] for line in lines] == ["kmc", "kmc"]
    assert float(lines[1][3]) < 0.1  # given the score
    assert all(set(needs) <= set(PACKAGES) for _, needs in TASKS.values())
    assert compare("digits, kernel matrix in rank 200: relative error", 1, 300, {"kmc"}) == []


@pytest.mark.parametrize("package", ["klap", "pydiffmap"])
def test_peers_are_called_as_they_expect(package):
    pytest.importorskip(package)
    found = next(estimates for name, _, estimates, _ in normal(0, 300) if name == package)
    assert next(found).shape == (6,)
