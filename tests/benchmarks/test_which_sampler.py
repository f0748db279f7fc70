"""The table of samplers."""

import pytest
import which_sampler

from kmc import mcmc
from kmc.mcmc import SAMPLERS
from kmc.mcmc.ask_tell import Startable


def row(sampler="kameleon", seed="0", ess="10", excess="-1"):
    numbers = {"ess_per_1000": ess, "bias_excess": excess, "width_excess": "-1"}
    return {"target": "ring", "sampler": sampler, "seed": seed, "budget": "6000", **numbers}


def public_samplers():
    found = (getattr(mcmc, name) for name in mcmc.__all__)
    return [one for one in found if isinstance(one, type) and issubclass(one, Startable)]


def test_the_table_has_medians_and_counts_wrong_runs():
    found = [row(), row(seed="1", ess="20"), row(seed="2", ess="40", excess="0.1"), row("kernel-hmc", ess="500")]
    found += [row("zeus", ess="30"), row("pints ACMC", ess="60", excess="0.2")]
    header, _, line = which_sampler.table(found, 6000).splitlines()
    assert header == "| target | kernel-hmc | kameleon | best peer |"
    assert line == "| ring | 500 (500) | 20 (10), 1 of 3 wrong | zeus: 30 (30) |"


def test_samplers_are_those_of_the_package():
    unnamed = {one.__name__ for one in public_samplers()} - {one.__name__ for one in SAMPLERS.values()}
    assert set(which_sampler.METHODS) == {*SAMPLERS, *unnamed}


def test_a_row_is_read_as_it_was_written(tmp_path, monkeypatch):
    monkeypatch.setattr(which_sampler, "RESULTS", tmp_path / "rows.csv")
    monkeypatch.setattr(which_sampler, "SAMPLING", tmp_path / "none.csv")
    monkeypatch.setattr(which_sampler, "run_cell", lambda target, method, seed, budget: {
        **row(seed=seed), "target": target, "budget": budget, "method": method,
    })  # fmt: skip
    for seed in (0, 1, 1):
        which_sampler.run("ring", "kameleon", seed, 6000)
    assert [found["seed"] for found in which_sampler.rows()] == ["0", "1"]
    assert which_sampler.rows()[0]["ess_per_1000"] == "10"


@pytest.mark.parametrize("name", ["which-sampler: begin", "which-sampler: end"])
def test_the_page_has_its_markers(name):
    assert name in which_sampler.PAGE.read_text()
