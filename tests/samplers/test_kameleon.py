"""Kameleon against its transcription, and what it learns; tests/correctness has its stationary
distribution.
"""

import math

import numpy as np
import pytest

from kmc.model.toys import Banana
from kmc.samplers.base import MOVES
from kmc.samplers.kameleon import Kameleon, Subsample, covariance_root, log_normal
from kmc.samplers.metropolis import decide
from tests.oracles import kameleon as oracle
from tests.samplers import setups

BANANA = Banana(2, b=0.1)
SMALL = Kameleon(max_states=100)


def started(sampler, target=BANANA, chains=3, warmup=300):
    return setups.started(sampler, target, chains=chains, warmup=warmup)


def drive(state, sweeps, target=BANANA):
    return [state.advance(np.array([target(x) for x in state.propose()])) for _ in range(sweeps)]


@pytest.mark.parametrize(
    ("dim", "n", "bandwidth", "gamma", "nu"), [(1, 4, 1.0, 0.2, 0.7), (3, 20, 0.6, 0.1, 2.0)]
)
def test_the_covariance_and_the_density_are_those_of_the_paper(dim, n, bandwidth, gamma, nu):
    rng = np.random.default_rng(dim)
    z = rng.standard_normal((n, dim))
    for y in 1.5 * rng.standard_normal((5, dim)):
        root = covariance_root(y, z, bandwidth=bandwidth, gamma=gamma, nu=nu)
        np.testing.assert_allclose(
            root @ root.T, oracle.covariance(y, z, bandwidth, gamma, nu), rtol=1e-10
        )
        x = y + rng.standard_normal(dim)
        expected = oracle.log_proposal(x, y, z, bandwidth, gamma, nu) + 0.5 * dim * math.log(
            2 * math.pi
        )
        assert log_normal(x - y, root) == pytest.approx(expected, rel=1e-9)


def test_proposals_and_their_acceptance_are_those_of_the_paper():
    """In the coordinates in which the subsample has unit spread."""
    state = started(SMALL)
    drive(state, 300)
    proposer = state.proposers[0]
    subsample, nu = proposer._subsample, proposer._factor.value * proposer._subsample.unit
    settings = subsample.z, subsample.bandwidth, 0.2, nu
    np.testing.assert_allclose(subsample.z.std(axis=0), 1.0)
    for seed, y in enumerate(BANANA.sample(np.random.default_rng(2), 10)):
        proposal = proposer.propose(np.random.default_rng(seed), y)
        root = np.linalg.cholesky(oracle.covariance(y / subsample.scale, *settings))
        step = subsample.scale * (root @ np.random.default_rng(seed).standard_normal(2))
        np.testing.assert_allclose(proposal.position, y + step, rtol=1e-9)
        _, probability = decide(
            np.random.default_rng(0),
            BANANA(y),
            BANANA(proposal.position),
            log_ratio=proposal.log_ratio,
        )
        scaled = proposal.position / subsample.scale, y / subsample.scale
        expected = oracle.acceptance(lambda u: BANANA(u * subsample.scale), *scaled, *settings)
        assert probability == pytest.approx(expected, rel=1e-8)


def test_steps_follow_the_banana():
    """In a bent arm the longest direction is that of the arm; a single covariance has one direction
    for all states.
    """
    x = BANANA.sample(np.random.default_rng(3), 1000)
    subsample = Subsample.of(x, 0.3)
    for at, slope in ((-15.0, 3.0), (15.0, -3.0)):  # of x_2 = -.1 (x_1² - 100)
        y = np.array([at, -0.1 * (at**2 - 100)])
        root = subsample.root(y, 0.05, 1.0)
        covariance = np.diag(subsample.scale) @ root @ root.T @ np.diag(subsample.scale)
        direction = np.linalg.eigh(covariance)[1][:, -1]
        assert direction[1] / direction[0] == pytest.approx(slope, rel=0.4)


def test_a_random_walk_first_and_renewals_at_sweeps_fixed_in_advance():
    state = started(SMALL, warmup=20)
    kinds, renewed, last = [], [], None
    for sweep in range(1, 400):
        kinds += [MOVES[kind] for kind in drive(state, 1)[0].stats["move"]]
        now = state.proposers[0]._subsample
        if now is not last:
            renewed.append(sweep)
        last = now
    assert kinds[: 3 * renewed[0]] == ["random-walk"] * 3 * renewed[0]
    assert set(kinds[3 * renewed[0] :]) == {"kameleon"}
    assert renewed == np.ceil(20 * 1.25 ** np.arange(14)).astype(int).tolist()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"gamma": 0}, ValueError),
        ({"gamma": "small"}, TypeError),
        ({"max_states": 3}, ValueError),
        ({"bandwidth": 0.0}, ValueError),
        ({"bandwidth": "cv"}, ValueError),
        ({"bandwidth": None}, TypeError),
        ({"bandwidth": math.inf}, ValueError),
        ({"target_acceptance": 1.0}, ValueError),
        ({"adaptation": "none"}, ValueError),
    ],
)
def test_wrong_options(options, error):
    (name,) = options
    with pytest.raises(error, match=f"{name}=.*expected"):
        Kameleon(**options)
