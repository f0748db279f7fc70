"""The examples of the gallery run, with small budgets, and their models are what they say."""

import importlib

import numpy as np
import pytest

from kmc.spectral import features

pytest.importorskip("matplotlib")


@pytest.fixture(autouse=True)
def no_window(monkeypatch):
    """Nothing stays open, whatever backend there is."""
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    yield
    plt.close("all")


def example(name, *packages):
    for package in packages:
        pytest.importorskip(package)
    return importlib.import_module(name)


pytestmark = pytest.mark.packages


def pictures():
    import matplotlib.pyplot as plt

    return len(plt.get_fignums())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "packages", "budget", "printed"),
    [
        ("epidemic", ["pints"], 600, "One ill person infects"),
        ("ion_channel", ["pints"], 300, "closing_slope  truth"),
        ("program_with_files", [], 400, "calls were rejected, such as"),
        ("line_fit", ["emcee"], 600, "effective samples, emcee"),
        ("synthetic_likelihood", [], 400, "The noise of the estimates has a sd of about"),
        ("butane", [], 1500, "set 3:"),
        (
            "adenylate_kinase",
            ["MDAnalysis", "MDAnalysisTests"],
            10,
            "correlation with the distance",
        ),
    ],
)
def test_it_runs(name, packages, budget, printed, capsys):
    example(name, *packages).main(budget)
    assert printed in capsys.readouterr().out and pictures() >= 1


def test_the_epidemic_is_that_of_pints():
    module = example("epidemic", "pints")
    theirs = module.DATA.simulate([0.02, 0.3, 40.0], module.DAYS)
    np.testing.assert_allclose(
        module.ill_and_recovered(0.02, 0.3, 40.0), theirs, rtol=1e-3, atol=1e-3
    )


def test_noise_of_the_channel_has_the_size_it_should():
    module = example("ion_channel", "pints")
    n = len(module.TIMES)
    at_truth = module.posterior().log_likelihood()(module.TRUTH)
    constant = -n * np.log(module.NOISE * np.sqrt(2 * np.pi))
    assert at_truth - constant == pytest.approx(-n / 2, abs=5 * np.sqrt(n / 2))


def test_the_line_is_bounded_as_in_the_tutorial():
    module = example("line_fit", "emcee")
    assert module.log_probability(np.array([-1.0, 4.0, 1.5])) == -np.inf
    best = module.log_probability(np.array([-0.95, 4.3, np.log(0.5)]))
    assert np.isfinite(best) and best > module.log_probability(np.array([-0.5, 4.3, np.log(0.5)]))


def test_forces_are_the_slope_of_the_energy():
    module = example("butane")
    x = np.array([[0.1, 1.4, 0.6], [0.0, 0.0, 0.1], [1.5, 0.1, 0.0], [2.1, -1.4, -0.2]])

    def energy(flat):
        b = np.diff(flat.reshape(4, 3), axis=0)
        length = np.linalg.norm(b, axis=1)
        angles = [np.arccos(-(b[i] @ b[i + 1]) / (length[i] * length[i + 1])) for i in range(2)]
        strength, rest = module.ANGLE
        bonds = module.BOND[0] * np.sum((length - module.BOND[1]) ** 2)
        bends = sum(strength * (angle - rest) ** 2 for angle in angles)
        return bonds + bends + module.torsion_energy(module.forces.py_func(flat.reshape(4, 3))[1])

    steps = 1e-5 * np.eye(12)
    slopes = [(energy(x.ravel() + step) - energy(x.ravel() - step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(module.forces.py_func(x)[0].ravel(), -np.array(slopes), atol=1e-6)


def test_a_dihedral_angle_is_what_placed_the_atom():
    module = example("alanine_dipeptide")
    a, b, c = np.array([1.0, 0.2, 0.0]), np.zeros(3), np.array([0.0, 0.0, 1.5])
    for angle in (-2.0, 0.4, 3.0):
        frames = np.array([[a, b, c, module._placed(a, b, c, 1.3, np.radians(110), angle)]])
        turn = [np.cos(angle), np.sin(angle)]
        np.testing.assert_allclose(features.dihedrals(frames, [(0, 1, 2, 3)])[0], turn, atol=1e-12)
        assert features.distances(frames)[0, -1] == pytest.approx(1.3)
