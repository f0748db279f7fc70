"""Moves of a hierarchical scale with its group: exact, and made where a group was found."""

import warnings

import numpy as np
import pytest
from scipy import stats

import kmc
from kmc.mcmc.base import MOVES
from kmc.mcmc.proposal_mixture import scaled
from kmc.surrogates.scale_group import ScaleGroup
from tests.oracles import differences

MEMBERS = np.array([0, 2, 4])  # around the center 5, with the scale exp(0.5 x_3); x_1 is a bystander
GROUP = ScaleGroup(driver=3, slope=0.5, center=5, members=MEMBERS)


def hierarchy(x):
    """x_5 ~ N(0, 1), x_3 ~ N(0, 1), members ~ N(x_5, exp(x_3)), x_1 ~ N(x_0, 1)."""
    inside = np.sum((x[MEMBERS] - x[5]) ** 2) * np.exp(-x[3])
    return -0.5 * (x[5] ** 2 + x[3] ** 2 + inside + len(MEMBERS) * x[3] + (x[1] - x[0]) ** 2)


def exact(rng, n):
    x = rng.standard_normal((n, 6))
    x[:, MEMBERS] = x[:, [5]] + np.exp(0.5 * x[:, [3]]) * x[:, MEMBERS]
    x[:, 1] += x[:, 0]
    return x


def test_a_group_scales_the_distances_to_its_center():
    x = np.random.default_rng(0).standard_normal(6)
    y, log_det = GROUP.scaled(x, 1.6)
    assert y[3] == x[3] + 1.6 and y[5] == x[5] and y[1] == x[1]
    np.testing.assert_allclose(y[MEMBERS] - y[5], np.exp(0.8) * (x[MEMBERS] - x[5]))
    jacobian = [differences.gradient(lambda point, i=i: GROUP.scaled(point, 1.6)[0][i], x) for i in range(6)]
    assert log_det == pytest.approx(np.linalg.slogdet(np.array(jacobian))[1], rel=1e-6)
    back, log_det_back = GROUP.scaled(y, -1.6)
    np.testing.assert_allclose(back, x, atol=1e-14)
    assert log_det_back == -log_det


def moved(rng, x, *, with_jacobian):
    """x (n, d) after a step of the move alone, and the acceptance rate."""
    archive, out, rate = x[:100], x.copy(), 0.0
    for i, row in enumerate(x):
        proposal = scaled(rng, row, [GROUP], archive=archive)
        log_ratio = proposal.log_ratio if with_jacobian else 0.0
        probability = np.exp(min(0.0, hierarchy(proposal.position) - hierarchy(row) + log_ratio))
        rate += probability / len(x)
        if rng.random() < probability:
            out[i] = proposal.position
    return out, rate


@pytest.mark.parametrize("with_jacobian", [True, False])
def test_the_target_is_invariant(with_jacobian):
    """Exact draws stay exact draws; without the Jacobian they do not, in the driver and the members."""
    rng = np.random.default_rng(1)
    out, rate = moved(rng, exact(rng, 6000), with_jacobian=with_jacobian)
    assert rate > 0.4
    tests = [
        stats.kstest(out[:, 3], "norm").pvalue,
        stats.kstest((out[:, 0] - out[:, 5]) * np.exp(-0.5 * out[:, 3]), "norm").pvalue,
    ]
    if with_jacobian:
        assert min(tests) > 1e-3
    else:
        assert min(tests) < 1e-6


def test_what_would_overflow_does_not_move():
    x = np.array([1.0, 0, 0, 0, 0, 1e100])
    steep = GROUP._replace(slope=1e3)
    archive = np.random.default_rng(0).standard_normal((9, 6))
    with np.errstate(all="raise"):
        proposals = [scaled(np.random.default_rng(seed), x, [steep], archive=archive) for seed in range(20)]
    moved = [proposal.moved for proposal in proposals]
    assert any(moved) and not all(moved)


def schools(x):
    """Six parameters around x_0 with the scale exp(x_1), each with an observation."""
    inside = np.sum((x[2:] - x[0]) ** 2) * np.exp(-2 * x[1])
    return -0.5 * float(x[0] ** 2 + x[1] ** 2 + inside + 0.1 * x[2:] @ x[2:]) - (len(x) - 2) * float(x[1])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_a_run_with_a_group_is_resumed_bit_for_bit(tmp_path):
    options = {"dim": 8, "draws": None, "max_evaluations": 1600, "seed": 3, "progress": False}
    expected = kmc.sample(schools, **options)
    assert "scaling" in expected["sample_stats"]["move"].attrs["flag_meanings"]
    assert (expected["sample_stats"]["move"].values == MOVES.index("scaling")).any()
    calls = [0]

    def interrupted(x):
        calls[0] += 1
        if calls[0] in (700, 1000):  # in warm-up, and later
            raise KeyboardInterrupt
        return schools(x)

    store = tmp_path / "run.zarr"
    kmc.sample(interrupted, store=store, **options)
    kmc.sample(interrupted, store=store, resume=True, **options)
    found = kmc.sample(interrupted, store=store, resume=True, **options)
    np.testing.assert_array_equal(found["posterior"]["x"].values, expected["posterior"]["x"].values)


@pytest.mark.slow
def test_a_run_finds_the_group_and_uses_it():
    """The neck, at scales under a tenth of the widest one, has its probability."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        idata = kmc.sample(schools, dim=8, draws=None, max_evaluations=4000, seed=3, progress=False)
    moves = idata["sample_stats"]["move"].values
    share = np.mean(moves == MOVES.index("scaling"))
    assert 0.05 < share < 0.15
    accepted = idata["sample_stats"]["accepted"].values[moves == MOVES.index("scaling")]
    assert accepted.mean() > 0.3
