"""Stores that were written before names changed are read, resumed and extended."""

import pytest

import kmc
from kmc.run.store.columns import read_json, write_json
from kmc.run.store.commit import COPY
from kmc.run.store.old_names import FIELDS
from tests.run.store.runs import Interrupted, Stop, assert_same, log_density, settings

OLD = {new: old for names in FIELDS.values() for old, new in names.items()}


def age(path):
    """Give the store the names that it would have had."""
    content = read_json(path / "zarr.json")
    about = content["attributes"]["kmc"]
    asked = about["settings"]
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
def test_a_store_with_old_names(tmp_path):
    path, asked = tmp_path / "run.zarr", settings("kernel-hmc")
    expected = kmc.sample(log_density, **asked)
    with pytest.raises(kmc.EvaluationError):
        kmc.sample(Interrupted(150, Stop()), store=path, **asked)
    age(path)
    assert_same(kmc.sample(log_density, store=path, resume=True, **asked), expected)
    age(path)
    assert kmc.extend(path, draws=3, target=log_density, progress=False).posterior.sizes["draw"] == 43


def test_options_with_old_fields_load():
    from kmc.run.store.plain import flatten, restore

    sampler = kmc.KernelHMC(archive_probability=0.2)
    parts = flatten(sampler)
    structure = parts.structure
    for new, old in OLD.items():
        structure = structure.replace(f'"{new}"', f'"{old}"')
    assert structure != parts.structure
    assert restore(parts._replace(structure=structure)) == sampler
