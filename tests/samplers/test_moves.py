"""Moves from outside: what they return, and kernel HMC with them. Their exactness is tested in
tests/correctness.
"""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats

import kmc
from kmc.model.toys import Banana, Bimodal
from kmc.samplers.base import MOVES
from kmc.samplers.moves import as_moves, fit_mixture, propose_one_of
from tests.oracles.mcmc import assert_standard

SMALL = kmc.KernelHMC(learning_share=0.3)
pytestmark = pytest.mark.filterwarnings("ignore::kmc.KmcWarning")


class Shift:
    """A user's move: one coordinate, by a normal number."""

    def propose(self, rng, position, archive):
        """As kmc.moves.Move."""
        assert archive.ndim == 2 and len(archive) >= 3
        position[rng.integers(len(position))] += rng.normal()
        return position, 0.0


def sampled(sampler, **options):
    asked = {
        "dim": 2,
        "draws": None,
        "max_evaluations": 500,
        "seed": 3,
        "progress": False,
    } | options
    return kmc.sample(Banana(2, b=0.03), sampler=sampler, **asked)


# In kernel HMC
@pytest.mark.slow
def test_draws_with_moves_are_labeled_and_have_their_probabilities():
    sampler = dataclasses.replace(SMALL, moves=[(Shift(), 0.3), (kmc.moves.Snooker(), 0.1)])
    idata = sampled(sampler)
    stats_ = idata.sample_stats
    names = stats_["move"].attrs["flag_meanings"].split()
    assert names == [*MOVES, "Shift", "Snooker"]
    kinds = stats_["move"].values.ravel()
    for index, p in ((len(MOVES), 0.3), (len(MOVES) + 1, 0.1)):
        assert_standard((np.mean(kinds == index) - p) / np.sqrt(p * (1 - p) / len(kinds)))
    assert np.any(stats_["accepted"].values.ravel()[kinds == len(MOVES)])
    assert np.any(kinds == MOVES.index("surrogate"))


@pytest.mark.slow
def test_a_run_with_moves_is_resumed(tmp_path):
    sampler = dataclasses.replace(SMALL, moves=[(kmc.moves.Independence(2), 0.2)])
    calls = []

    def stop(record):
        calls.append(record)
        return record.draw >= 20

    options = {"sampler": sampler, "max_evaluations": 380}
    store = tmp_path / "run.zarr"
    sampled(callback=stop, store=store, **options)
    resumed = sampled(resume=True, store=store, **options)
    np.testing.assert_array_equal(
        resumed.posterior["x"].values, sampled(**options).posterior["x"].values
    )


# One of several


def test_moves_take_turns_by_their_probabilities():
    pairs, rng, archive = (
        as_moves([(Shift(), 0.2), (kmc.moves.Snooker(), 0.5)]),
        np.random.default_rng(1),
        np.eye(4, 2),
    )
    made = [propose_one_of(pairs, rng, np.array([3.0, 4.0]), archive=archive) for _ in range(2000)]
    kinds = np.array([-1 if proposal is None else proposal.move - len(MOVES) for proposal in made])
    for kind, p in ((-1, 0.3), (0, 0.2), (1, 0.5)):
        assert_standard((np.mean(kinds == kind) - p) / np.sqrt(p * (1 - p) / len(kinds)))


@pytest.mark.parametrize(
    ("returned", "moved"),
    [
        (([1.0, 2.0], 0.0), False),
        (([1.0, 3.0], -0.5), True),
        (([np.inf, 2.0], 0.0), False),
        (([0, 0], np.nan), False),
    ],
)
def test_proposals_that_do_not_move_or_overflow(returned, moved):
    class Fixed:
        def propose(self, rng, position, archive):
            return returned

    rng, x = np.random.default_rng(0), np.array([1.0, 2.0])
    made = [propose_one_of(((Fixed(), 0.9),), rng, x, archive=np.eye(3, 2)) for _ in range(10)]
    for proposal in filter(None, made):
        assert proposal.moved == moved and np.all(np.isfinite(proposal.position))
        assert proposal.log_ratio == (returned[1] if moved else 0.0)


@pytest.mark.parametrize(
    "returned", [None, 1.0, ([1.0], 0.0), ([1.0, 2.0], "x"), ([1.0, 2.0],), (["a", "b"], 0.0)]
)
def test_a_move_that_returns_something_else(returned):
    class Wrong:
        def propose(self, rng, position, archive):
            return returned

    with pytest.raises(
        TypeError,
        match=r"moves: Wrong.propose returned .*: expected \(position, log_ratio\), an array",
    ):
        for seed in range(9):
            propose_one_of(
                ((Wrong(), 0.9),), np.random.default_rng(seed), np.zeros(2), archive=np.eye(3, 2)
            )


@pytest.mark.parametrize(
    ("moves", "error", "message"),
    [
        (None, TypeError, r"moves=None: expected pairs \(move, probability\)"),
        ("snooker", TypeError, "moves='snooker'"),
        ([kmc.moves.Snooker()], TypeError, "one of them is Snooker"),
        ([(kmc.moves.Snooker, 0.1)], TypeError, "has no method propose"),
        ([(3, 0.1)], TypeError, "moves: 3 has no method propose"),
        ([(kmc.moves.Snooker(), "often")], TypeError, r"is 'often': expected a number in \(0, 1\)"),
        ([(kmc.moves.Snooker(), 0)], ValueError, "is 0: expected a number"),
        (
            [(kmc.moves.Snooker(), 0.6), (Shift(), 0.4)],
            ValueError,
            "add up to 1: expected less than 1",
        ),
    ],
)
def test_wrong_moves(moves, error, message):
    with pytest.raises(error, match=message):
        kmc.KernelHMC(moves=moves)


@pytest.mark.parametrize(("cls", "option"), [("RandomWalk", "scale"), ("Independence", "dof")])
def test_wrong_options(cls, option):
    with pytest.raises(ValueError, match=f"{option}=0"):
        getattr(kmc.moves, cls)(**{option: 0})


# The fitted mixture


def test_the_mixture_finds_two_modes_and_only_those():
    x = Bimodal(2, separation=8.0, weight=0.3).sample(np.random.default_rng(0), 600)
    mixture = fit_mixture(x, 5)
    assert len(mixture.weights) == 2
    np.testing.assert_allclose(np.sort(mixture.weights), [0.3, 0.7], atol=0.06)
    assert len(fit_mixture(np.random.default_rng(1).standard_normal((400, 3)), 5).weights) == 1
    assert len(fit_mixture(np.ones((50, 2)), 5).weights) == 1  # all equal


@pytest.mark.parametrize("dof", [3.0, math.inf])
def test_the_density_of_the_mixture(dof):
    x = Bimodal(2, separation=8.0).sample(np.random.default_rng(0), 300)
    mixture = fit_mixture(x, 3)
    scales = [root @ root.T for root in mixture.roots]
    laws = [
        stats.multivariate_normal(mean, scale)
        if math.isinf(dof)
        else stats.multivariate_t(mean, scale, df=dof)
        for mean, scale in zip(mixture.means, scales, strict=True)
    ]
    expected = np.log(sum(w * law.pdf(x[:9]) for w, law in zip(mixture.weights, laws, strict=True)))
    np.testing.assert_allclose(mixture.log_density(x[:9], dof), expected, rtol=1e-10)
