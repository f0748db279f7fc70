"""Stores that were written before names changed are read, resumed and extended."""

import importlib.util
import json

import numpy as np
import pytest

import kmc
from kmc.run.store.columns import read_json, write_json
from kmc.run.store.commit import COPY
from kmc.run.store.old_names import FIELDS, MODULES
from kmc.run.store.plain import PACKAGES, flatten, restore
from tests.grids import slow_except
from tests.run.store.runs import Interrupted, Stop, assert_same, log_density, settings

OLD = {new: old for names in FIELDS.values() for old, new in names.items()}


def kernel_hmc_with(estimator, options):
    """The settings of a ScoreHMC when it was a KernelHMC with an estimator."""
    return options["warmup_sampler"] | {
        "archive_probability": options["random_walk_probability"],
        "max_archive": options["max_states"],
        "adaptation": "static" if options["adaptation"] == "freeze" else options["adaptation"],
        "surrogate": estimator,
        "values": options["values"] or None,
    }


def age(path):
    """Rename in the store to the old names."""
    content = read_json(path / "zarr.json")
    about = content["attributes"]["kmc"]
    asked = about["settings"]
    options = json.loads(asked["settings of the sampler"])
    if asked["sampler"] == "score-hmc":
        options, asked["sampler"] = kernel_hmc_with(options["estimator"], options), "kernel-hmc"
    else:
        options |= {"surrogate": None, "values": None}
    asked["settings of the sampler"] = json.dumps(options)
    asked["replicas"] = asked.pop("independent_runs")
    options = asked["settings of the sampler"]
    for new, old in OLD.items():
        options = options.replace(f'"{new}"', f'"{old}"')
    assert options != asked["settings of the sampler"]
    asked["settings of the sampler"] = options
    about["commit"]["snapshots"] = []  # their classes are unknown here: the history tells what was evaluated
    for name in ("zarr.json", COPY):
        write_json(path / name, content)


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
@pytest.mark.parametrize("name", slow_except(["kernel-hmc", "nystrom"], {"nystrom"}))
def test_a_store_with_old_names(tmp_path, name):
    path, asked = tmp_path / "run.zarr", settings(name)
    expected = kmc.sample(log_density, **asked)
    with pytest.raises(kmc.EvaluationError):
        kmc.sample(Interrupted(150, Stop()), store=path, **asked)
    age(path)
    assert_same(kmc.sample(log_density, store=path, resume=True, **asked), expected)
    age(path)
    n = expected.posterior.sizes["draw"]
    assert kmc.extend(path, draws=3, target=log_density, progress=False).posterior.sizes["draw"] == n + 3


def test_options_with_old_fields_load():
    sampler = kmc.KernelHMC(archive_probability=0.2)
    parts = flatten(sampler)
    structure = parts.structure
    for new, old in OLD.items():
        structure = structure.replace(f'"{new}"', f'"{old}"')
    assert structure != parts.structure
    assert restore(parts._replace(structure=structure)) == sampler


def test_a_kernel_hmc_with_an_estimator_loads_as_score_hmc():
    from kmc.run.store.plain import flatten, restore

    warmup = kmc.KernelHMC(archive_probability=0.3, max_archive=50, first_refit=7)
    parts = flatten([warmup, kmc.scores.GaussianScore()])
    kind, ((instance, name, fields), estimator) = json.loads(parts.structure)
    score = kmc.ScoreHMC(
        kmc.scores.GaussianScore(), random_walk_probability=0.3, max_states=50, first_refit=7, warmup_sampler=warmup
    )
    for found, adaptation, expected in [(estimator, "static", score), (None, "freeze", warmup)]:
        old = [instance, name, fields | {"adaptation": adaptation, "surrogate": found, "values": None}]
        loaded = restore(parts._replace(structure=json.dumps([kind, [old]])))[0]
        assert repr(loaded) == repr(expected)


MOVED = [
    (kmc.scores.FullKEF(regularization=0.1), "kmc.scores.full:Choice", "kmc.scores.full_selection:Choice"),
    (
        kmc.scores.FiniteKEF(n_basis=5, random_state=0),
        "kmc.bases.base:Contraction",
        "kmc.bases.contraction:Contraction",
    ),
]


@pytest.mark.parametrize(("estimator", "now", "before"), MOVED)
def test_classes_that_have_moved_are_found(estimator, now, before):
    """In states of estimators that were fitted before."""
    x = np.random.default_rng(0).standard_normal((20, 2))
    parts = flatten(estimator.fit(x))
    structure = parts.structure.replace(f'"{now}"', f'"{before}"')
    assert structure != parts.structure
    restored = restore(parts._replace(structure=structure))
    np.testing.assert_array_equal(restored.gradient(x), estimator.gradient(x))


def test_options_of_the_fit_that_have_moved_are_found():
    options = kmc.surrogates.FitOptions(n_basis=30)
    parts = flatten(options)
    structure = parts.structure.replace("kmc.surrogates.fit_options:", "kmc.surrogates.fit:")
    assert structure != parts.structure
    assert restore(parts._replace(structure=structure)) == options


def test_old_modules_are_gone_and_new_ones_may_be_in_a_state():
    for old, new in MODULES.items():
        assert importlib.util.find_spec(old) is None
        assert any(new == package or new.startswith(f"{package}.") for package in PACKAGES)


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_a_run_of_the_old_adaptive_metropolis_is_read_but_not_continued(tmp_path):
    """Its proposals were those of a random walk only, and its settings did not say so."""
    path, asked = tmp_path / "run.zarr", settings("adaptive-metropolis")
    expected = kmc.sample(log_density, store=path, **asked)
    content = read_json(path / "zarr.json")
    written = content["attributes"]["kmc"]["settings"]
    options = json.loads(written["settings of the sampler"])
    old = {name: options[name] for name in ("adaptation", "target_acceptance")}
    written["settings of the sampler"] = json.dumps(old)
    for name in ("zarr.json", COPY):
        write_json(path / name, content)
    assert_same(kmc.load(path), expected, attrs=False)
    with pytest.raises(ValueError, match="adaptive Metropolis of an earlier version, kmc .* does not make: kmc.load"):
        kmc.sample(log_density, store=path, resume=True, **asked)
    with pytest.raises(ValueError, match="adaptive Metropolis of an earlier version"):
        kmc.extend(path, draws=3, target=log_density, progress=False)
