"""The checks can detect errors: with a known error in the package, each of them fails.

An error is made by a patch. Deterministic results must disagree with the target beyond rounding;
random ones use the seeds of ``test_ranks.py``, and exceed its limits by so much that other seeds
would do so, too.
"""

import dataclasses

import numpy as np
import pytest

from kmc.kernel_hmc.modes import Modes
from kmc.kernel_hmc.proposals import SURROGATE, TEMPERED, ProposalMixture
from kmc.kernel_hmc.state import KernelHMCState
from kmc.samplers import moves
from kmc.samplers.adaptive_langevin import AdaptiveLangevin, _Local, langevin
from kmc.samplers.adaptive_metropolis import AdaptiveMetropolis, LearnedMixture
from kmc.samplers.delayed_acceptance import DelayedAcceptance, ScreenedProposer
from kmc.samplers.kameleon import Kameleon
from kmc.samplers.metropolis import Proposal
from kmc.samplers.random_walk import GaussianSteps
from kmc.samplers.score_field import ScoreMixture
from kmc.samplers.walkers import Walkers
from kmc.scores import GaussianScore
from kmc.surrogate import jit_state
from tests.correctness.invariance import (
    MANY,
    ONLY_SURROGATE,
    ONLY_TEMPERED,
    SIZE,
    added_moves,
    case,
    frozen_chains,
    learned,
    proposals_of,
    random_walk,
    runs,
    snookers,
    tempered,
)
from tests.correctness.lattices import (
    FROM_OUTSIDE,
    NOISE,
    NOISE_SHARES,
    check_independence,
    check_kameleon,
    check_langevin,
    check_mode_jumps,
    check_noisy_target,
    check_plan,
    check_process,
    check_random_walk,
    check_riemannian,
    check_score_paths,
    check_screening,
    check_snooker_on_rays,
    check_tempering,
    check_volumes,
    line,
)
from tests.grids import slow_except

pytestmark = pytest.mark.slow  # they test the tests

NOT_EXACT = {"expected_exception": AssertionError, "match": "Not equal to tolerance"}
CHANGED = {"expected_exception": AssertionError, "match": "the distribution has changed"}


def size_of(name, chosen):
    """As many exact draws as the quick checks have, for the chosen target; other targets show some
    errors less.
    """
    return SIZE if name == chosen else MANY


# The snooker's Jacobian


@pytest.fixture
def no_jacobian(monkeypatch):
    """emcee's error, or one like it: the volume does not grow along a line through the center."""
    right = moves.snooker

    def snooker(rng, x, archive):
        return right(rng, x, archive)._replace(log_ratio=0.0)

    monkeypatch.setattr(moves, "snooker", snooker)


@pytest.mark.parametrize("dim", [2, 3, 6])
def test_a_snooker_without_its_jacobian_is_seen_by_enumeration(no_jacobian, dim):
    with pytest.raises(**NOT_EXACT):
        check_snooker_on_rays(dim, moves.snooker)
    with pytest.raises(**NOT_EXACT):
        check_volumes(moves.snooker, dim)


@pytest.mark.parametrize(
    "name", slow_except(["gaussian", "cone", "student-t", "log-gamma"], {"cone"})
)
def test_a_snooker_without_its_jacobian_is_seen_from_exact_draws(no_jacobian, name):
    with pytest.raises(**CHANGED):
        case(name).check(snookers(case(name)), size=size_of(name, "cone"))


# The surrogate's ratio


def patched_runs(monkeypatch, change):
    """Every proposal of a run goes through ``change(proposal, plan, x)``."""
    right = ProposalMixture.propose

    def propose(self, rng, x):
        proposal = right(self, rng, x)
        return (
            change(proposal, self.surrogate, x)
            if proposal.move in (SURROGATE, TEMPERED)
            else proposal
        )

    monkeypatch.setattr(ProposalMixture, "propose", propose)


@pytest.fixture
def swapped_ratio(monkeypatch):
    """s(x') / s(x) in place of s(x) / s(x')."""
    patched_runs(monkeypatch, lambda proposal, *_: proposal._replace(log_ratio=-proposal.log_ratio))


@pytest.fixture
def no_ratio(monkeypatch):
    """An inner chain treated as a symmetric proposal."""
    patched_runs(monkeypatch, lambda proposal, *_: proposal._replace(log_ratio=0.0))


@pytest.fixture
def ratio_at_temperature_one(monkeypatch):
    """An inner chain on a flattened surrogate s^b, corrected by s."""

    def change(proposal, surrogate, x):
        return proposal._replace(
            log_ratio=_log_surrogate(surrogate, x) - _log_surrogate(surrogate, proposal.position)
        )

    patched_runs(monkeypatch, change)


def _log_surrogate(surrogate, x):
    return jit_state.values(surrogate.jit_state, surrogate.coordinates(x[None]))[0]


@pytest.mark.parametrize("mistake", ["swapped_ratio", "no_ratio", "ratio_at_temperature_one"])
def test_a_wrong_ratio_is_seen_by_enumeration(request, mistake):
    request.getfixturevalue(mistake)
    with pytest.raises(**NOT_EXACT):
        check_plan(line(), archive_probability=0.3, tempered_probability=1.0)


@pytest.mark.parametrize(
    "name", slow_except(["gaussian", "bimodal", "student-t", "cone"], {"gaussian"})
)
def test_a_swapped_ratio_is_seen_from_exact_draws(swapped_ratio, name):
    """Also on a surrogate that is nearly right, where s(x') p(x') / (s(x) p(x)) makes the chain
    sink to the mode.
    """
    one = case(name)
    for surrogate in (one.right, one.wrong):
        with pytest.raises(**CHANGED):
            one.check(runs(one, surrogate, **ONLY_SURROGATE), size=size_of(name, "gaussian"))


@pytest.fixture
def no_volume(monkeypatch):
    """Inner chains in warped coordinates, corrected as if these preserved volume."""

    def change(proposal, surrogate, x):
        now, then = surrogate.transport.log_jacobian(np.stack([x, proposal.position]))
        return proposal._replace(log_ratio=proposal.log_ratio - now + then)

    patched_runs(monkeypatch, change)


@pytest.mark.parametrize("name", slow_except(["gaussian", "student-t"], {"student-t"}))
def test_a_missing_volume_is_seen_from_exact_draws(no_volume, name):
    with pytest.raises(**CHANGED):
        case(name).check(
            runs(case(name), case(name).warped, **ONLY_SURROGATE), size=size_of(name, "student-t")
        )


@pytest.mark.parametrize("name", slow_except(["gaussian", "student-t"], {"student-t"}))
def test_a_missing_ratio_is_seen_from_exact_draws(no_ratio, name):
    with pytest.raises(**CHANGED):
        case(name).check(
            runs(case(name), case(name).wrong, **ONLY_SURROGATE), size=size_of(name, "student-t")
        )


@pytest.mark.parametrize("name", slow_except(["gaussian", "student-t"], {"gaussian"}))
def test_a_ratio_at_the_wrong_temperature_is_seen_from_exact_draws(ratio_at_temperature_one, name):
    with pytest.raises(**CHANGED):
        case(name).check(
            runs(case(name), case(name).right, **ONLY_TEMPERED), size=size_of(name, "gaussian")
        )


# Adaptive Metropolis


@pytest.fixture
def one_density(monkeypatch):
    """An independent proposal treated as a symmetric one."""
    right = LearnedMixture._independent

    def independent(self, rng, x):
        return right(self, rng, x)._replace(log_ratio=0.0)

    monkeypatch.setattr(LearnedMixture, "_independent", independent)


def test_an_independent_proposal_without_its_densities_is_seen(one_density):
    with pytest.raises(**NOT_EXACT):
        check_independence()
    for name in ("gaussian", "student-t"):
        with pytest.raises(**CHANGED):
            case(name).check(learned(case(name), AdaptiveMetropolis()))


# Random walks


def test_a_random_walk_whose_steps_depend_on_the_state_is_seen(monkeypatch):
    right = GaussianSteps.propose

    def propose(self, rng, x):
        one = right(self, rng, x)
        return one._replace(position=x + 2.0 * abs(x[0]) * (one.position - x))

    monkeypatch.setattr(GaussianSteps, "propose", propose)
    with pytest.raises(AssertionError):
        check_random_walk()
    for name in ("wedge", "log-gamma"):
        with pytest.raises(**CHANGED):
            case(name).check(random_walk(case(name)), size=MANY)


# Kameleon


@pytest.fixture
def one_covariance(monkeypatch):
    """A covariance that depends on the state, treated as if it were the same at both ends."""
    monkeypatch.setattr("kmc.samplers.kameleon.log_normal", lambda step, root: 0.0)


@pytest.mark.parametrize("name", slow_except(["student-t", "cone"], {"cone"}))
def test_a_kameleon_without_its_densities_is_seen(one_covariance, name):
    with pytest.raises(**NOT_EXACT):
        check_kameleon()
    moves = learned(case(name), Kameleon(max_states=60, bandwidth=1.0, gamma=0.5), sweeps=30)
    with pytest.raises(**CHANGED):
        case(name).check(moves, size=size_of(name, "cone"))


# Paths along a score


def test_a_path_along_a_score_without_its_momenta_is_seen(monkeypatch):
    right = ScoreMixture.propose

    def propose(self, rng, x):
        return right(self, rng, x)._replace(log_ratio=0.0)

    monkeypatch.setattr(ScoreMixture, "propose", propose)
    with pytest.raises(**NOT_EXACT):
        check_score_paths()
    for name in ("student-t", "log-gamma"):
        with pytest.raises(**CHANGED):
            case(name).check(
                proposals_of(case(name), case(name).score_plan(0.05).propose, sweeps=8)
            )


# Langevin and delayed acceptance


@pytest.fixture
def symmetric_langevin(monkeypatch):
    """A step along a gradient treated as a symmetric one."""

    def change(*arguments, **options):
        return langevin(*arguments, **options)._replace(log_ratio=0.0)

    monkeypatch.setattr("kmc.samplers.adaptive_langevin.langevin", change)
    monkeypatch.setattr("tests.correctness.lattices.langevin", change)


def test_a_langevin_step_without_its_densities_is_seen(symmetric_langevin):
    with pytest.raises(**NOT_EXACT):
        check_langevin()
    for name in ("gaussian", "student-t"):
        with pytest.raises(**CHANGED):
            case(name).check(learned(case(name), AdaptiveLangevin(GaussianScore())))


def test_a_local_covariance_without_its_determinant_is_seen(monkeypatch):
    right = _Local.of
    monkeypatch.setattr(_Local, "of", lambda *arguments: right(*arguments)._replace(log_det=0.0))
    with pytest.raises(**NOT_EXACT):
        check_riemannian()


@pytest.fixture
def screened_twice(monkeypatch):
    """What the learned density has accepted is accepted by the true one as if nothing had been
    screened.
    """
    right = ScreenedProposer.propose

    def propose(self, rng, x):
        return right(self, rng, x)._replace(log_ratio=0.0)

    monkeypatch.setattr(ScreenedProposer, "propose", propose)


@pytest.mark.parametrize("name", slow_except(["gaussian", "student-t"], {"student-t"}))
def test_screening_without_its_ratio_is_seen(screened_twice, name):
    with pytest.raises(**NOT_EXACT):
        check_screening()
    with pytest.raises(**CHANGED):
        case(name).check(
            learned(case(name), DelayedAcceptance(estimator=GaussianScore()), sweeps=8)
        )


# Moves from outside


@pytest.fixture
def no_ratio_of_moves(monkeypatch):
    """Every move from outside is treated as a symmetric one."""
    right = moves.propose_one_of

    def propose_one_of(*arguments, **options):
        made = right(*arguments, **options)
        return None if made is None else made._replace(log_ratio=0.0)

    monkeypatch.setattr("kmc.kernel_hmc.state.propose_one_of", propose_one_of)
    monkeypatch.setattr(moves, "propose_one_of", propose_one_of)


def test_moves_from_outside_without_their_ratios_are_seen_by_enumeration(no_ratio_of_moves):
    with pytest.raises(**NOT_EXACT):
        check_process(line(5), moves=FROM_OUTSIDE)


@pytest.mark.parametrize("name", slow_except(["student-t", "gaussian"], {"student-t"}))
def test_moves_from_outside_without_their_ratios_are_seen_from_exact_draws(no_ratio_of_moves, name):
    with pytest.raises(**CHANGED):
        case(name).check(added_moves(case(name), sweeps=6), size=size_of(name, "student-t"))


# Jumps between modes


def test_jumps_between_modes_without_their_volumes_are_seen_by_enumeration(monkeypatch):
    right = Modes.jump

    def jump(self, rng, x):
        position, log_ratio = right(self, rng, x)
        return position, np.where(np.isfinite(log_ratio), 0.0, log_ratio)

    monkeypatch.setattr(Modes, "jump", jump)
    with pytest.raises(**NOT_EXACT):
        check_mode_jumps()


# Parallel tempering


@pytest.fixture
def swaps_always(monkeypatch):
    """Neighbors swap whatever their densities are."""
    monkeypatch.setattr(
        "kmc.samplers.parallel_tempering.swap_acceptance", lambda betas, excess: 1.0
    )


@pytest.mark.parametrize("moves", [False, True])
def test_swaps_without_their_ratio_are_seen_by_enumeration(swaps_always, moves):
    with pytest.raises(**NOT_EXACT):
        check_tempering(4, (1.0, 0.4), moves, True)


@pytest.mark.parametrize("name", slow_except(["gaussian", "log-gamma", "ring"], {"ring"}))
def test_swaps_without_their_ratio_are_seen_from_exact_draws(swaps_always, name):
    with pytest.raises(**CHANGED):
        case(name).check(tempered(case(name)), size=size_of(name, "ring"))


# Frozen means frozen


@pytest.fixture
def thawed(monkeypatch):
    """After each sweep of the main phase the surrogate's quadratic is moved halfway to where the
    chain is.
    """
    right = KernelHMCState._finish_sweep

    def finish_sweep(self, stats):
        record = right(self, stats)
        if not self.warming_up:
            here = self.mixture.surrogate.coordinates(self.walkers.x)[0]
            self.mixture = self.mixture._replace(surrogate=_moved(self.mixture.surrogate, here))
        return record

    monkeypatch.setattr(KernelHMCState, "_finish_sweep", finish_sweep)


def _moved(surrogate, here):
    state = surrogate.jit_state._replace(location=0.5 * (surrogate.jit_state.location + here))
    return dataclasses.replace(surrogate, jit_state=state)


@pytest.mark.filterwarnings("ignore:The gradient disagrees:kmc.KmcWarning")
@pytest.mark.parametrize(
    "gradients", slow_except({"values": None, "gradients": np.cos}, {"gradients"})
)
def test_a_surrogate_that_changes_after_the_freeze_is_seen_by_enumeration(thawed, gradients):
    with pytest.raises(**NOT_EXACT):
        check_process(line(5), gradients)


@pytest.mark.parametrize("name", slow_except(["gaussian", "student-t", "log-gamma"], {"gaussian"}))
def test_a_surrogate_that_changes_after_the_freeze_is_seen_from_exact_draws(thawed, name):
    with pytest.raises(**CHANGED):
        case(name).check(frozen_chains(case(name), sweeps=8), size=size_of(name, "gaussian"))


# Noisy estimates


VARIANCE = 2.0


def fresh_noise(rng, n):
    """Of estimates that are unbiased on the scale of the density."""
    return rng.normal(-0.5 * VARIANCE, VARIANCE**0.5, n)


def noisy_walks(one, rng_of_noise, sweeps=10):
    """Random walks that see log p + w with normal w and E e^w = 1, from the joint stationary
    distribution.

    The noise of a stationary state has the density g(w) e^w: it is N(+v/2, v) where fresh noise is
    N(-v/2, v).
    """

    def step(rng, x):
        group = Walkers(
            [rng] * len(x),
            x,
            one.values(x) + rng_of_noise.normal(0.5 * VARIANCE, VARIANCE**0.5, len(x)),
        )
        for _ in range(sweeps):
            steps = 0.5 * one.scale * rng.standard_normal(x.shape)
            proposals = [Proposal(row, 0.0, 0) for row in group.x + steps]
            points = np.array([p.position for p in proposals])
            group.decide(proposals, one.values(points) + fresh_noise(rng_of_noise, len(x)))
        return group.x

    return step


@pytest.fixture
def recomputed(monkeypatch):
    """The value of the present state is recomputed before each decision ("Monte Carlo within
    Metropolis").
    """
    right = Walkers.decide

    def decide(self, *arguments):
        self.log_density = self.estimate(self)
        return right(self, *arguments)

    monkeypatch.setattr(Walkers, "decide", decide)


NOISY = pytest.mark.parametrize("name", slow_except(["bimodal", "wedge", "log-gamma"], {"wedge"}))


@NOISY
def test_estimates_that_are_kept_leave_the_target_invariant(name):
    case(name).check(noisy_walks(case(name), np.random.default_rng(4)), size=MANY)


@NOISY
def test_a_noisy_estimate_that_is_recomputed_is_seen_from_exact_draws(
    recomputed, monkeypatch, name
):
    one, rng = case(name), np.random.default_rng(5)

    def estimate(group):
        return one.values(group.x) + fresh_noise(rng, len(group.x))

    monkeypatch.setattr(Walkers, "estimate", staticmethod(estimate), raising=False)
    with pytest.raises(**CHANGED):
        one.check(noisy_walks(one, np.random.default_rng(4)), size=MANY)


def test_a_noisy_estimate_that_is_recomputed_is_seen_by_enumeration(recomputed, monkeypatch):
    lattice = line()

    def estimate(group):
        return lattice.values(group.x) + NOISE[group.rngs[0].fork(NOISE_SHARES)]

    monkeypatch.setattr(Walkers, "estimate", staticmethod(estimate), raising=False)
    with pytest.raises(**NOT_EXACT):
        check_noisy_target()
