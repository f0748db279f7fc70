"""Inner chains of many walkers, side by side: to the bit those of one walker after the other."""

from dataclasses import replace

import numba
import numpy as np
import pytest

from kmc.mcmc.base import MOVES
from kmc.mcmc.inner_chains import inner_chains
from kmc.mcmc.proposal_mixture import ProposalMixture
from kmc.mcmc.surrogate_transition import InnerChainOptions, inner_chain
from kmc.mcmc.tempering import COLD, Tempering
from kmc.surrogates.fit import FitOptions, fit_surrogate
from kmc.surrogates.scale_group import ScaleGroup
from kmc.surrogates.transport import Funnel

N, D = 40, 3
INNER = InnerChainOptions(step_size=0.4, trajectory_length=2.0, jump_probability=0.2, small_step_probability=0.4)


@pytest.fixture(scope="module")
def surrogate():
    rng = np.random.default_rng(0)
    x = 2.0 * rng.standard_normal((200, D))
    values = -0.5 * np.sum(x**2, axis=1) + np.sin(2 * x[:, 0])
    return fit_surrogate(x, values, x[:100], rng=rng, options=FitOptions(n_basis=20))


def mixture(surrogate):
    archive = np.random.default_rng(1).standard_normal((30, D))
    return ProposalMixture(surrogate, archive, surrogate.coordinates(archive), 0.2, 0.8, INNER, 1, 4, 0.2, 0.3)


def rngs():
    return [np.random.default_rng(seed) for seed in np.random.SeedSequence(3).spawn(N)]


def starts():
    return np.random.default_rng(2).standard_normal((N, D))


@pytest.mark.parametrize("threads", [1, 3])
def test_any_number_of_threads_gives_the_chains_of_one_after_the_other(monkeypatch, surrogate, threads):
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", threads)
    state = surrogate.jit_state
    temperings = [COLD if i % 2 else Tempering(1.0, 0.5, 8.0) for i in range(N)]
    lengths, archive = [1 + i % 5 for i in range(N)], starts()
    together, alone = rngs(), rngs()
    found = inner_chains(state, starts(), lengths, temperings=temperings, rngs=together, options=INNER, archive=archive)
    for i, (rng, start) in enumerate(zip(alone, starts(), strict=True)):
        one = inner_chain(state, temperings[i], rng, start, lengths[i], INNER, archive)
        np.testing.assert_array_equal(found.position[i], one.position)
        assert found.n_steps[i] == one.n_steps and found.moved[i] == one.moved and found.diverging[i] == one.diverging
        np.testing.assert_equal(found.energy[i], one.energy)
        assert together[i].random() == rng.random()  # the generators are left where they would be


@pytest.mark.parametrize("coordinates", ["plain", "funnel", "group"])
def test_proposals_together_are_those_of_each(surrogate, monkeypatch, coordinates):
    moves = {"surrogate", "tempered-surrogate", "snooker"}
    if coordinates == "group":
        groups = (ScaleGroup(0, 1.0, 1, np.array([2])),)
        monkeypatch.setattr(type(surrogate), "scale_groups", property(lambda self: groups))
        moves |= {"scaling"}
    if coordinates == "funnel":
        slopes = np.array([0.0, 0.5, -0.5])
        surrogate = replace(surrogate, transport=Funnel(driver=0, origin=0.1, centers=np.zeros(D), slopes=slopes))
    plan, temperings = mixture(surrogate), [COLD if i % 3 else Tempering(1.0, 0.5, 8.0) for i in range(N)]
    together, alone = rngs(), rngs()
    seen = set()
    for x in (starts(), starts()[::-1], 2 * starts()):
        found = plan.propose_each(together, x, temperings)
        expected = [plan.propose(*walker) for walker in zip(alone, x, temperings, strict=True)]
        seen |= {MOVES[proposal.move] for proposal in expected}
        assert len(found) == N
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(ours.position, theirs.position)
            np.testing.assert_equal(ours[1:], theirs[1:])
    assert seen >= moves
