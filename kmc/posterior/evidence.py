"""``kmc.evidence``: the normalizing constant of the posterior, without further evaluations.

By the surrogate of kernel HMC, or by the ladder of parallel tempering.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from kmc.checks import as_flag, as_number
from kmc.control_variates.annealing import GAP, LEAST_GAP
from kmc.control_variates.correction import stated
from kmc.control_variates.domain import UnknownMode
from kmc.control_variates.estimate import judge
from kmc.control_variates.replicate import Replicate, bennett
from kmc.convergence import ENOUGH_DRAWS, squared_error, worst_rhat
from kmc.errors import KmcWarning
from kmc.posterior.ladder import is_tempered, ladder_estimates
from kmc.posterior.learned import LARGEST_SE, LEARNED, Learned, Table
from kmc.posterior.results import (
    as_evaluator,
    as_list,
    groups_of,
    log_likelihood_of,
    opened,
    read,
    read_evaluations,
    seed_of,
    without_prior,
)
from kmc.run.display import steps
from kmc.seeds import Seed

if TYPE_CHECKING:
    import xarray

Evaluate = Callable[[np.ndarray], np.ndarray]

# beyond it and LARGEST_SE, errors were of several nats (tried: benchmarks/honesty.py)
_LARGEST_RHAT = 1.5
# nats of two estimates that further evaluations can reconcile (tried: eight schools, a funnel)
_MOST_APART = 2.0
# of the surrogate's mass near the draws, where the density may be zero, for the evidence to be so
_UNKNOWN = 0.5
_SURROGATE = (
    "annealing between the surrogate and a Student-t density in both directions, then a bridge to "
    "the target by states and their proposals"
)
_LADDER = "MBAR from the states at all temperatures between the prior and the target"


class Part(NamedTuple):
    """Results of one independent run.

    They are log Z, its standard error, the log-mass of the surrogate, doubts, and the path.
    """

    log_evidence: float
    se: float
    log_surrogate_mass: float
    doubts: str
    path: np.ndarray  # (3, temperatures) of the surrogate with the largest mass


def evidence(
    result: Any,
    *,
    prior_normalized: bool = True,
    model: Any = None,
    max_evaluations: int = 0,
    seed: Seed = 0,
    progress: bool = True,
) -> xarray.Dataset:
    """Estimate the log-evidence (marginal likelihood) of runs from draws and surrogates or ladders.

    Parameters
    ----------
    result : result of kmc.sample, path of a store, list of them, or mapping of names to them
        Runs of "kernel-hmc", or of "tempered" for models that have their prior apart, each with its
        own model. Runs of "kernel-hmc" of one model may be joined along the dimension "chain":
        their estimates are combined.
    prior_normalized : bool
        Whether the log-density is that of a likelihood times a *normalized* prior, constants
        included. If not, the integral of the density is estimated, and there are no Bayes factors.
    model : Model, pymc.Model or bridgestan.StanModel, optional
        The model of a single result; only needed with `max_evaluations`.
    max_evaluations : int
        Number of true evaluations at draws from the surrogate. They reveal mass of the surrogate
        where there are no draws, and correct the estimate for it if it is not most of the mass. Not
        for "tempered".
    seed : int, SeedSequence or Generator
        For the draws from the surrogate.
    progress : bool
        Whether a terminal or a notebook shows that it is under way.

    Returns
    -------
    xarray.Dataset
        By ``run``: ``log_evidence`` (in nats) and its Monte Carlo standard error ``se``;
        ``log_surrogate_mass``, that of the surrogate where it is used (NaN without one);
        ``log_bayes_factor`` of each run against each ``reference``, with ``se_log_bayes_factor``;
        and ``kl_divergence``, the Kullback–Leibler divergence from the prior to the posterior with
        ``se_kl_divergence``, if the result has log-likelihoods (else NaN): of
        ``kmc.Model(log_likelihood=..., log_prior=...)``, or in the group ``log_likelihood``. By
        ``run`` and ``step``: ``path_inverse_temperature`` from 0 to 1, and the log-mass there by
        particles that go down, ``path_down``, and up, ``path_up``; of the first independent run and
        its largest mode, NaN after the last temperature (:func:`kmc.plot_evidence` draws them). For
        a ladder both are its estimates. The attribute "warnings" is a list of sentences, and
        "method" describes the computation.

    Raises
    ------
    TypeError, ValueError
        The result has no surrogate and no ladder that ends in the prior, or too few draws and
        evaluations; an argument is invalid.

    Warns
    -----
    KmcWarning
        The evidence is not known, and is NaN: parameters have no prior; the chains have not
        converged (R-hat above 1.5); the surrogate is in doubt, as it has a mode without draws, its
        proposals do not reach all of its mass, or much of it is where the density is zero, and
        :func:`kmc.expectations` does without it then; independent runs disagree; or the standard
        error would be above 0.5 nats. The evidence is a number, but its true error may be larger
        than the stated one: the surrogate has mass far from all draws, or a small part of it is
        where the density is zero; the draws count as fewer than 100 independent ones; noise grows
        towards the tails; the run warned that its draws are not those of the posterior;
        temperatures of a ladder hardly overlap, or do not reach the prior.

    Notes
    -----
    First the mass of the surrogate s is estimated, by annealing between it and a Student-t density:
    particles move by Hamiltonian dynamics along a path of tempered densities, up from weighted
    draws of the Student-t and down from draws of s, at temperatures chosen so that neighbors
    overlap; each ratio is Bennett's, from both neighbors, with control variates. The estimate is
    that on the way up, and is compared with that on the way down, which knows only the modes that
    have draws. Beyond one and a half times the distance of the farthest draw s counts as zero, and,
    if the density was zero at some proposals, where the nearest evaluated point is one of them.
    Then the ratio of the target's mass to that of the surrogate is estimated, from each state and
    its proposal: this is exact for any s, and is compared with Bennett's estimator for states and
    proposals separately. The standard error is from independent groups of particles, and for the
    ratio the larger one of two: that of its autocorrelated series, and that of the chains' own
    means.

    The integral is over the parameters; the log-density of a run includes the Jacobians of
    constrained ones. Whether a prior is proper cannot be known from evaluations: the evidence of an
    improper one has no meaning.

    For a run of :class:`kmc.Tempered`, the ratio of the masses of posterior and prior is estimated
    from the states at all temperatures by MBAR [3]_, and its standard error from their
    autocorrelated series. The mass of the prior is known from states at the last temperature if
    that is ``math.inf``, and otherwise by reweighting those at the highest one; where the
    likelihood is zero only the former is right.

    A run with fewer than 100 draws is answered for by functions that its evaluations allow, as by
    :func:`kmc.expectations`: the evidence and its error are the mean and the standard deviation of
    their integrals. So is one of at most 1,000 evaluations whose surrogate is in doubt, if the
    density is positive at all of them and errors not rough.

    A mode that no evaluation has found is not included.

    References
    ----------
    .. [1] Meng and Wong (1996), "Simulating ratios of normalizing constants via a simple identity",
       Statistica Sinica 6.
    .. [2] Neal (2001), "Annealed importance sampling", Statistics and Computing 11.
    .. [3] Shirts and Chodera (2008), "Statistically optimal analysis of samples from multiple
       equilibrium states", Journal of Chemical Physics 129.

    Examples
    --------
    >>> import kmc
    >>> import numpy as np
    >>> idata = kmc.sample(
    ...     lambda x: -0.5 * x @ x, dim=2, draws=None, max_evaluations=900, seed=1, progress=False
    ... )
    >>> found = kmc.evidence(idata)
    >>> bool(abs(found["log_evidence"][0] - np.log(2 * np.pi)) < 0.1)
    True
    """
    prior_normalized = as_flag("prior_normalized", prior_normalized)
    further = as_number("max_evaluations", max_evaluations, 0)
    names, given = _named(result)
    if (model is not None or further) and len(given) > 1:
        raise ValueError(f"result has {len(given)} runs: model= and max_evaluations= are for one")
    if further and model is None:
        raise ValueError(
            f"max_evaluations={max_evaluations!r} and model=None: pass the model that is to be "
            f"evaluated"
        )
    calls = ["result" if len(given) == 1 else f"result[{name!r}]" for name in names]
    results = [opened(one, call) for one, call in zip(given, calls, strict=True)]
    found, said = [], []
    jobs = list(zip(names, calls, results, seed_of(seed).spawn(len(results)), strict=True))
    for name, call, idata, own in steps(jobs, "kmc.evidence", as_flag("progress", progress)):
        if is_tempered(idata):
            parts = _of_ladders(idata, call, prior_normalized, further)
        else:
            parts = _of_surrogates(idata, call, model, own, further)
        whole, doubts = _together(parts), [part.doubts for part in parts]
        if unknown := _unknown(idata, parts, prior_normalized):
            whole, doubts = whole._replace(log_evidence=np.nan, se=np.nan), [unknown, *doubts]
        found.append(whole)
        where = "" if len(results) == 1 else f"{name}: "
        said += [f"{where}{doubt}." for doubt in doubts if doubt]
    said = list(dict.fromkeys(said))
    for sentence in said:
        warnings.warn(sentence, KmcWarning, stacklevel=2)
    return _dataset(names, results, found, prior_normalized, said)


def _unknown(idata: Any, parts: list[Part], prior_normalized: bool) -> str:
    """Say why the evidence of the runs together is not known; return "" if it is."""
    if (names := without_prior(idata)) and prior_normalized:
        return (
            f"The evidence is not known, as the density has no prior of {', '.join(names)}: "
            "declare one, such as kmc.Normal(0, 1), or pass log_prior= to kmc.Model; "
            "prior_normalized=False gives the density's integral"
        )
    high, low = (choose(parts, key=lambda part: part.log_evidence) for choose in (max, min))
    gap = high.log_evidence - low.log_evidence
    if gap > max(GAP * np.hypot(high.se, low.se), LEAST_GAP):
        return (
            f"The evidence is not known, as independent runs differ by {gap:.2f} nats: "
            "sample for longer"
        )
    return ""


def _checked(part: Part, draws: np.ndarray) -> Part:
    """Return the part, with NaN if its chains (chains, n, d) disagree or its error is too large."""
    if (rhat := worst_rhat(draws)) > _LARGEST_RHAT:
        why = f"the chains disagree (R-hat {rhat:.1f})"
    elif part.se > LARGEST_SE:
        why = (
            f"its standard error would be {part.se:.1f} nats, which is too large to be right itself"
        )
    else:
        return part
    said = f"The evidence is not known, as {why}: sample for longer"
    return part._replace(
        log_evidence=np.nan, se=np.nan, doubts=". ".join(filter(None, [said, part.doubts]))
    )


def _of_surrogates(
    idata: Any, name: str, model: Any, seed: np.random.SeedSequence, further: int
) -> list[Part]:
    run = read(idata, model, name, least=ENOUGH_DRAWS)
    if not run.replicates:
        if further:
            raise ValueError(
                f"max_evaluations={further}: {name} has {run.n_draws} draws; sample for longer "
                f"instead"
            )
        learned = Learned(run, name, seed)
        return [_of_learned(learned, learned.table(), [])]
    replicates = run.replicates
    evaluate = as_evaluator(model, replicates[0].draws.shape[2]) if further else None
    parts, unknown = [], None
    try:
        for replicate, own in zip(replicates, seed.spawn(len(replicates)), strict=True):
            part = _of_replicate(replicate, own, evaluate, further // len(replicates))
            parts.append(_checked(part, replicate.draws))
    except UnknownMode as error:
        unknown = error
    in_doubt = unknown is not None or np.isnan([part.log_evidence for part in parts]).all()
    if in_doubt and (again := read_evaluations(idata, model, name)):
        learned = Learned(again, name, seed)
        if not (table := learned.table()).is_rough:
            doubts = [
                f"By its draws: {part.doubts[0].lower()}{part.doubts[1:]}."
                for part in parts
                if part.doubts
            ]
            return [_of_learned(learned, table, doubts)]
    if unknown is not None:
        raise ValueError(f"{name}: {unknown}; sample for longer") from unknown
    return parts


def _of_learned(learned: Learned, table: Table, doubts: list[str]) -> Part:
    """Return mean and standard deviation of integrals of functions that the evaluations allow."""
    (log_mass, se), found = learned.log_mass(), table.log_masses
    sentences = [*doubts, *learned.sentences(table)]
    if np.isnan(log_mass):
        sentences.append(
            "Nearly all draws of the surrogate are where the density is zero, so that there is no "
            "number: sample for longer, or declare the bounds of the parameters."
        )
    said = " ".join(sentences).rstrip(".")
    return Part(
        log_mass + float(found.mean()),
        float(np.sqrt(found.var() + se**2 + table.unseen**2)),
        log_mass,
        said,
        np.empty((3, 0)),
    )


def _of_ladders(idata: Any, name: str, prior_normalized: bool, further: int) -> list[Part]:
    if not prior_normalized:
        raise ValueError(
            f"prior_normalized=False: the ladder of {name} leads to its prior, whose mass has to "
            "be known; use sampler='kernel-hmc'"
        )
    if further:
        raise ValueError(
            f"max_evaluations={further}: {name} is of sampler='tempered', which has no surrogate"
        )
    _check_draws(idata["sample_stats"]["lp"].size, name)
    found = ladder_estimates(idata, name)
    group = (
        "unconstrained_posterior" if "unconstrained_posterior" in groups_of(idata) else "posterior"
    )
    draws = np.split(idata[group]["x"].values, len(found))
    return [
        _checked(
            Part(
                one.log_evidence, one.se, np.nan, one.doubts[:1].upper() + one.doubts[1:], one.path
            ),
            own,
        )
        for one, own in zip(found, draws, strict=True)
    ]


def _check_draws(n_draws: int, name: str = "result") -> None:
    if n_draws < ENOUGH_DRAWS:
        raise ValueError(
            f"{name} has {n_draws} draws: expected at least {ENOUGH_DRAWS}; sample for longer"
        )


def _of_replicate(
    replicate: Replicate, seed: np.random.SeedSequence, evaluate: Evaluate | None, further: int
) -> Part:
    _check_draws(replicate.log_density.size)
    verdict = judge(replicate, seed)
    domain, masses = verdict.domain, verdict.masses
    transitions = replicate.transitions_in(domain)
    mean, series = transitions.ratio()
    unseen = 0.5 * transitions.unseen_share
    log_ratio = float(np.log(mean)) - transitions.shift - float(np.log1p(-unseen))
    ratio_se = float(
        np.hypot(np.sqrt(stated(series[..., None])[0]) / mean, unseen / (1.0 - unseen))
    )
    log_mass, mass_se = _sum([mass.log_mass for mass in masses], [mass.se for mass in masses])
    path = max(masses, key=lambda mass: mass.log_mass).path
    doubts, caution = verdict.doubts, verdict.caution
    if evaluate is not None and further:
        log_mass, mass_se = _sum([mass.up for mass in masses], [mass.up_se for mass in masses])
        weights = np.exp(np.array([mass.up for mass in masses]) - log_mass)
        rng = np.random.default_rng(seed)
        log_ratio, ratio_se = _by_evaluations(
            replicate, verdict.chains, masses, weights, evaluate, further, rng, domain
        )
        caution = ""
        if all(abs(mass.up - mass.down) < _MOST_APART for mass in masses):
            doubts = ""
    elif unseen > 0.5 * _UNKNOWN:
        said = (
            f"The evidence is not known: near the draws up to {2 * unseen:.0%} of the surrogate's "
            "mass is where the density is zero; sample for longer, declare the bounds of the "
            "parameters, or pass max_evaluations="
        )
        return Part(np.nan, np.nan, log_mass, said, path)
    if doubts:
        said = (
            f"The evidence is not known, as the surrogate is in doubt: {doubts}; sample for "
            "longer, or pass max_evaluations="
        )
        return Part(np.nan, np.nan, log_mass, said, path)
    if caution:
        said = (
            "The surrogate is in doubt, and the true error may be several times the stated one: "
            f"{caution}; max_evaluations= corrects the estimate by true values"
        )
    else:
        said = "; ".join(replicate.cautions)
    return Part(log_mass - log_ratio, float(np.hypot(mass_se, ratio_se)), log_mass, said, path)


def _by_evaluations(replicate, chains, masses, weights, evaluate, further, rng, domain):
    """Return log Z_s / Z_p and its error, from states and true values at draws from the surrogate.

    In a region they are of the masses that both have there, and the states say which share is
    there.
    """
    counts = rng.multinomial(further, weights / weights.sum())
    points = np.vstack(
        [
            own.component.back(mass.particles[rng.integers(len(mass.particles), size=count)])
            for own, mass, count in zip(chains, masses, counts, strict=True)
        ]
    )
    values = evaluate(points)
    at_surrogate = np.clip(replicate.density.log_density(points) - values, -1e3, 1e3)
    x = replicate.draws
    at_target = (
        replicate.density.log_density(x.reshape(-1, x.shape[2])).reshape(x.shape[:2])
        - replicate.log_density
    )
    inside = (
        np.ones(x.shape[:2], bool) if domain is None else domain.contains_points(x, by_others=True)
    )
    blocks = np.array_split(rng.permutation(further), 20), np.array_split(np.arange(x.shape[1]), 20)

    def ratio(left_out):
        kept = np.ones(further, bool), np.ones(x.shape[:2], bool)
        if left_out is not None:
            kept[0][blocks[0][left_out]] = False
            kept[1][:, blocks[1][left_out]] = False
        share = inside[kept[1]].mean()
        return bennett(at_surrogate[kept[0]], at_target[kept[1] & inside]) + np.log(share)

    parts = np.array([ratio(i) for i in range(20)])
    return ratio(None), float(np.sqrt(19 * parts.var()))


def _sum(logs, errors):
    """Return the log of a sum, and its error, from logs of its terms and theirs."""
    total = float(logsumexp(logs))
    return total, float(np.linalg.norm(np.exp(np.array(logs) - total) * np.array(errors)))


def _together(parts: list[Part]) -> Part:
    """Combine independent estimates, each weighted by its precision."""
    if len(parts) == 1:
        return parts[0]
    precision = np.array([part.se for part in parts]) ** -2.0
    whole = np.average([part.log_evidence for part in parts], weights=precision)
    mass = np.average([part.log_surrogate_mass for part in parts], weights=precision)
    return Part(float(whole), float(precision.sum() ** -0.5), float(mass), "", parts[0].path)


def _dataset(
    names, results: list[Any], found: list[Part], prior_normalized: bool, said: list[str]
) -> Any:
    import xarray

    log_evidence, se = (
        np.array([getattr(part, name) for part in found]) for name in ("log_evidence", "se")
    )
    each = {
        "log_evidence": log_evidence,
        "se": se,
        "log_surrogate_mass": np.array([part.log_surrogate_mass for part in found]),
    }
    variables: dict[str, Any] = {name: ("run", values) for name, values in each.items()}
    paths = np.full((len(found), 3, max(part.path.shape[1] for part in found)), np.nan)
    for own, part in zip(paths, found, strict=True):
        own[:, : part.path.shape[1]] = part.path
    for k, name in enumerate(("path_inverse_temperature", "path_down", "path_up")):
        variables[name] = (("run", "step"), paths[:, k])
    coords = {"run": names}
    if prior_normalized:
        divergences = np.array(
            [_divergence(idata, part) for idata, part in zip(results, found, strict=True)]
        )
        factors, errors = log_evidence[:, None] - log_evidence, np.hypot(se[:, None], se)
        np.fill_diagonal(errors, 0.0)
        table = ("run", "reference")
        variables |= {
            "kl_divergence": ("run", divergences[:, 0]),
            "se_kl_divergence": ("run", divergences[:, 1]),
            "log_bayes_factor": (table, factors),
            "se_log_bayes_factor": (table, errors),
        }
        coords["reference"] = names
    attrs = {
        "warnings": said,
        "prior_normalized": int(prior_normalized),
        "method": "; ".join(dict.fromkeys(map(_method, results, found))),
    }
    return xarray.Dataset(variables, coords=coords, attrs=attrs)


def _method(idata: Any, part: Part) -> str:
    if is_tempered(idata):
        return _LADDER
    return _SURROGATE if part.path.size else LEARNED


def _divergence(idata: Any, part: Part) -> tuple[float, float]:
    """Return E log-likelihood - log Z, and its error; NaN if the likelihood is not known."""
    total = log_likelihood_of(idata)
    if total is None or not total.size:
        return np.nan, np.nan
    lengths = np.sum(~np.isnan(total), axis=1)  # of joined results, the shorter has NaN
    mean = squared = 0.0
    for length in np.unique(lengths):
        own = total[lengths == length]
        own = own[~np.isnan(own)].reshape(len(own), length, 1)
        share = own.size / lengths.sum()
        mean += share * float(own.mean())
        squared += share**2 * float(squared_error(own)[0])
    return mean - part.log_evidence, float(np.sqrt(squared + part.se**2))


def _named(result):
    if isinstance(result, Mapping) and not hasattr(result, "groups"):
        if not result:
            raise ValueError("result={}: expected at least one result of kmc.sample")
        return [str(name) for name in result], list(result.values())
    given = as_list(result)
    return [str(i) for i in range(len(given))], given
