import numpy as np
import pytest
from matplotlib.figure import Figure

from kmc.plots import plot_coarse_model
from kmc.spectral.coarse import CoarseModel

CHAIN = np.array([[0.90, 0.08, 0.02], [0.10, 0.85, 0.05], [0.02, 0.03, 0.95]])


def model(rates=None):
    if rates is None:
        rates = np.array([[-0.03, 0.02, 0.01], [0.03, -0.05, 0.02], [0.005, 0.004, -0.009]])
    passage = np.array([[0.0, 30.0, 60.0], [25.0, 0.0, 50.0], [40.0, 45.0, 0.0]])
    populations = np.array([0.5, 0.3, 0.2])
    arrays = (populations, CHAIN, rates, passage)
    replicates = CHAIN + 0.004 * np.array([1.0, -1.0, 0.5])[:, None, None] * np.array(
        [[1, -1, 0], [-1, 0, 1], [0, 0, 0]]
    )
    return CoarseModel(5, *arrays, *(0.1 * np.abs(values) for values in arrays), replicates)


def shown(ax):
    """Points, and half of the length of their bars."""
    line, _, (bars,) = ax.containers[0].lines
    segments = np.array(bars.get_segments())
    return line.get_xdata(), (segments[:, 1, 0] - segments[:, 0, 0]) / 2, [t.get_text() for t in ax.get_yticklabels()]


def test_populations_rates_passage_times_and_a_committor():
    chain = model()
    axes = plot_coarse_model(chain, source=0, target=2, unit=0.5, unit_name="ps", figure=Figure())
    off = ~np.eye(3, dtype=bool)
    committor, errors = chain.committor(0, 2), chain.committor_errors(0, 2)
    assert 0.0 < committor[1] < 1.0
    assert errors[1] > 0
    expected = [
        (chain.populations, chain.population_errors),
        (chain.rates[off] / 0.5, chain.rate_errors[off] / 0.5),
        (0.5 * chain.passage_times[off], 0.5 * chain.passage_errors[off]),
        (committor, errors),
    ]
    for ax, (values, stated) in zip(axes, expected, strict=True):
        points, bars, _ = shown(ax)
        np.testing.assert_allclose(points, values)
        np.testing.assert_allclose(bars, 2 * stated, atol=1e-12)
    assert shown(axes[0])[2] == ["1", "2", "3"]
    assert shown(axes[1])[2] == shown(axes[2])[2] == ["1 → 2", "1 → 3", "2 → 1", "2 → 3", "3 → 1", "3 → 2"]
    assert [ax.get_xscale() for ax in axes] == ["linear", "log", "log", "linear"]
    assert [ax.get_xlabel() for ax in axes[1:]] == ["rate (1 / ps)", "mean first-passage time (ps)", "committor, 1 → 3"]


def test_the_last_set_is_the_target_by_default():
    axes = plot_coarse_model(model(), figure=Figure())
    np.testing.assert_allclose(shown(axes[3])[0], model().committor(0, 2))


def test_negative_rates_are_shown():
    """Estimates of rates that are nearly zero can be negative: then the axis is linear."""
    rates = np.array([[-0.02, 0.02, -0.001], [0.03, -0.05, 0.02], [0.005, 0.004, -0.009]])
    axes = plot_coarse_model(model(rates), figure=Figure())
    assert axes[1].get_xscale() == "linear"
    assert shown(axes[1])[0].min() == -0.001


def test_the_same_set_twice():
    with pytest.raises(ValueError, match="expected a set other than the target"):
        plot_coarse_model(model(), source=2, figure=Figure())
