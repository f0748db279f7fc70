import numpy as np
import pytest
import spectral_circle
from spectral_defaults import line
from trajectories import RARE, SYSTEMS, Outcome, differences, read, report, write


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_slopes_are_those_of_the_potentials(system):
    d = len(system.grid.box)
    points = np.random.default_rng(0).uniform(-1.2, 1.2, (5, 2))
    for point in points:
        found = system.slope(*point)[:d]
        ends = [[point[:d] + sign * 1e-5 * axis for sign in (1, -1)] for axis in np.eye(d)]
        expected = [np.diff(system.grid.potential(np.array(pair)))[0] / -2e-5 for pair in ends]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_the_rare_state_is_one():
    x = SYSTEMS[3].grid.sample(np.random.default_rng(0), 100_000)[:, 0]
    assert 0.004 < np.mean(x > RARE[1:].mean()) < 0.007


def test_the_slowest_function_of_a_normal_distribution():
    grid = line("normal", lambda x: x**2 / 2, lambda x: x, 8.0)
    x = np.linspace(-3, 3, 50)[:, None]
    found = grid.slowest_function(x)
    np.testing.assert_allclose(found * np.sign(found[-1]), x[:, 0], atol=0.01)


def test_rows_are_read_as_written(tmp_path):
    rows = [Outcome("prinz", k, 30.0, 31.0 + k, 2.0, 28.0, 29.0, 30.3, np.nan, False, 0.5) for k in range(2)]
    write(rows, tmp_path / "rows.csv")
    assert [vars(row) | {"found_rare": 0} for row in read(tmp_path / "rows.csv")] == [
        vars(row) | {"found_rare": 0} for row in rows
    ]
    assert "| prinz | 30.0 | 2 | 4.9% | 6.9% | 3.4% | 1.0% | 50% | 100% |" in report(rows)
    assert "| prinz | 200 cells | 0.0148 ± 0.0159 |" in differences(rows)


def test_fits_on_the_circle_are_read_as_written(tmp_path):
    rows = [spectral_circle.Outcome(1.0, 300, seed, 1.25, 1.17, True, False, 0.5) for seed in range(2)]
    spectral_circle.write(rows, tmp_path / "rows.csv")
    assert spectral_circle.read(tmp_path / "rows.csv") == rows
    assert "| 1 | 300 | 1.25, 1.25 (1.17) | right, warned; right, warned | 0.5 |" in spectral_circle.table(rows)


def test_eigenvalues_on_the_circle():
    np.testing.assert_allclose(spectral_circle.truth(0.0), [1, 1, 4, 4], rtol=1e-4)
    perturbed = spectral_circle.truth(0.1)  # second order: 1 ± κ²/... for the pair
    assert np.all(np.abs(perturbed[:2] - 1) < 0.01)
