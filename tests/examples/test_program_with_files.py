"""The program of the example: its folders, exit codes and time limit."""

import subprocess

import numpy as np
import pytest

import kmc

pytest.importorskip("matplotlib")
import program_with_files as example


@pytest.fixture
def simulation(tmp_path):
    return example.Simulation(np.zeros(12), tmp_path)


def growth(rate, capacity):
    sizes = [10.0]
    while len(sizes) < 12:
        sizes.append(sizes[-1] + rate * sizes[-1] * (1 - sizes[-1] / capacity))
    return np.array(sizes)


def test_a_call_leaves_its_output_and_no_folder(simulation, tmp_path, monkeypatch):
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(work))
    value, blobs = simulation({"rate": 0.8, "capacity": 300.0})
    assert value == pytest.approx(-0.5 * np.sum(growth(0.8, 300.0) ** 2) / 100)
    np.testing.assert_allclose(np.loadtxt(tmp_path / f"{blobs['output']}.txt"), growth(0.8, 300.0))
    with pytest.raises(RuntimeError, match="exit code 1: no stable step"):
        simulation({"rate": 2.6, "capacity": 300.0})
    monkeypatch.setattr(example, "COMMAND", ["sleep", "60"])
    simulation.timeout = 0.2
    with pytest.raises(subprocess.TimeoutExpired):
        simulation({"rate": 0.8, "capacity": 300.0})
    assert list(work.iterdir()) == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_a_run_rejects_failures_and_knows_the_file_of_each_draw(tmp_path):
    model = kmc.Model(
        example.Simulation(growth(0.8, 300.0), tmp_path),
        parameters={"rate": kmc.Uniform(0, 5), "capacity": kmc.Uniform(200, 400)},
        on_error="reject",
    )
    idata = kmc.sample(
        model,
        sampler="adaptive-metropolis",
        draws=None,
        max_evaluations=120,
        seed=1,
        progress=False,
    )
    assert idata.attrs["n_failed"] > 0 and "exit code 1: no stable step" in idata.attrs["rejected"]
    last = {name: float(draws[0, -1]) for name, draws in idata.posterior.data_vars.items()}
    np.testing.assert_allclose(
        np.loadtxt(tmp_path / f"{int(idata.blobs['output'][0, -1])}.txt"), growth(**last)
    )
