"""What decisions tell about the next ones."""

import numpy as np
import pytest

import kmc
from kmc.mcmc.lanes import Jump
from kmc.run.outlook import Outlook
from tests.run.store.runs import log_density, settings
from tests.run.streams import Rounds


def error(x):
    """Of a surrogate."""
    return 0.3 * x[0] ** 2 - 0.1 * x[1] ** 3 + 0.2 * x[0] * x[2]


def decisions(rng, count, noise=0.02, move=0, known=error):
    """Jumps, and the logarithms of their acceptance ratios."""
    x = rng.standard_normal((count, 2, 3))
    jumps = [Jump(move, start, end, 0.0) for start, end in x]
    return [(jump, known(jump.end) - known(jump.start) + noise * rng.standard_normal()) for jump in jumps]


def test_smooth_errors_are_learned():
    rng, outlook = np.random.default_rng(1), Outlook()
    for jump, change in decisions(rng, 400):
        outlook.note(jump, change)
    later, uniforms = decisions(rng, 500), rng.random(500)
    chances = np.array([outlook.chance(jump, u) for (jump, _), u in zip(later, uniforms, strict=True)])
    accepted = np.log(uniforms) < [change for _, change in later]
    assert 0.2 < accepted.mean() < 0.9
    assert np.mean((chances > 0.5) == accepted) > 0.97
    assert chances.min() > 0.0 and chances.max() < 1.0
    assert outlook.chance(later[0][0], 0.0) > 0.9


def test_chances_are_those_of_the_errors_that_are_left():
    rng, outlook = np.random.default_rng(2), Outlook()
    for jump, change in decisions(rng, 1500, noise=0.5):
        outlook.note(jump, change)
    later, uniforms = decisions(rng, 4000, noise=0.5), rng.random(4000)
    chances = np.array([outlook.chance(jump, u) for (jump, _), u in zip(later, uniforms, strict=True)])
    accepted = np.log(uniforms) < [change for _, change in later]
    for low, high in ((0.1, 0.3), (0.3, 0.5), (0.5, 0.7), (0.7, 0.9)):
        mine = (chances > low) & (chances < high)
        assert mine.sum() > 100
        assert abs(accepted[mine].mean() - chances[mine].mean()) < 0.1


@pytest.mark.parametrize("count, noise, known", [(150, 0.0, error), (1000, 1.0, lambda x: 0.0)], ids=["few", "noise"])
def test_nothing_is_known_of_few_decisions_or_of_noise(count, noise, known):
    rng, outlook = np.random.default_rng(3), Outlook()
    for jump, change in decisions(rng, count, noise=noise, known=known):
        outlook.note(jump, change)
    outlook.note(jump, -np.inf)  # tells nothing
    assert outlook.chance(jump, 0.5) is None


def test_moves_of_another_kind_are_not_predicted():
    rng, outlook = np.random.default_rng(4), Outlook()
    for jump, change in decisions(rng, 300, move=1):
        outlook.note(jump, change)
    assert outlook.chance(jump, 0.5) is not None
    assert outlook.chance(jump._replace(move=0), 0.5) is None


@pytest.mark.filterwarnings("ignore::kmc.errors.KmcWarning")
@pytest.mark.parametrize("prefetch", [False, True])
def test_runs_that_prefetch_learn(monkeypatch, prefetch):
    noted = []
    monkeypatch.setattr(Outlook, "note", lambda self, jump, change: noted.append((jump, change)))
    kmc.sample(log_density, executor=Rounds(workers=8, prefetch=prefetch), **settings("kernel-hmc", draws=30))
    assert (len(noted) > 40) == prefetch
    for jump, change in noted:
        expected = log_density(jump.end) - log_density(jump.start) + jump.log_ratio
        assert change == pytest.approx(expected)
