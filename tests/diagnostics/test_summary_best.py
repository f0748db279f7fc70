"""``kmc.best``, its line in the summary and in the report."""

import json

import arviz
import numpy as np
import pytest

import kmc
from kmc import cli
from kmc.run.results import container

pytestmark = pytest.mark.filterwarnings("ignore::kmc.KmcWarning")


@pytest.fixture(scope="module")
def idata():
    parameters = {"a": kmc.Gamma(3, 1), "b": kmc.Real(2)}
    model = kmc.Model(lambda p: -3.0 * p["a"] - 0.5 * float(p["b"] @ p["b"]), parameters=parameters)
    return kmc.sample(
        model, sampler="adaptive-metropolis", draws=200, warmup=100, seed=1, progress=False
    )


def test_the_best_draw_is_the_one_nearest_to_the_mode_of_the_parameters(idata):
    """The mode of the gamma density a^2 exp(-4 a) is 0.5; with the Jacobian it would be 0.75."""
    draw, evaluation = kmc.best(idata)
    a, b = (idata["posterior"][name].values for name in ("a", "b"))
    values = 2 * np.log(a) - 4 * a - 0.5 * np.sum(b**2, axis=2) - np.log(2)
    place = np.unravel_index(values.argmax(), values.shape)
    assert draw.parameters["a"] == a[place] and draw.parameters["b"].tolist() == b[place].tolist()
    assert (
        draw.log_density == pytest.approx(values.max())
        and evaluation.log_density >= draw.log_density
    )
    assert draw.log_density == pytest.approx(draw.total_log_likelihood + draw.log_prior)
    assert idata["sample_stats"]["lp"].values.argmax() != values.argmax()


def test_the_line_in_the_summary_and_the_report(idata, tmp_path, capsys):
    idata.to_netcdf(str(tmp_path / "draws.nc"), engine="h5netcdf")
    assert (
        kmc.best(arviz.from_netcdf(tmp_path / "draws.nc")).evaluation.log_density
        == kmc.best(idata)[1].log_density
    )
    evaluation = kmc.best(idata).evaluation
    line = str(evaluation)
    assert (
        line.startswith(f"{evaluation.log_density:.6g} (log-likelihood ")
        and f" at a = {evaluation[0]['a']:.4g}, b[0]" in line
    )
    assert cli.main(["summary", str(tmp_path / "draws.nc")]) == 0
    assert f"highest log-density evaluated: {line}\n" in capsys.readouterr().out
    pytest.importorskip("matplotlib")
    assert line in kmc.report(idata, tmp_path / "report.html").read_text(encoding="utf-8")


def test_results_without_a_record(idata):
    other = container({name: idata[name] for name in ("posterior", "sample_stats")}, {})
    draw, evaluation = kmc.best(other)
    assert draw is evaluation and draw.log_prior is None
    joined = container(
        {name: idata[name] for name in ("posterior", "sample_stats")},
        {"best": json.dumps({"log_density": -99.0})},
    )
    assert kmc.best(joined).evaluation.log_density == draw.log_density
    with pytest.raises(
        ValueError, match="idata has no draws with a log-density, the variable 'lp' of the group"
    ):
        kmc.best(container({"posterior": idata["posterior"]}, {}))
    with pytest.raises(ValueError, match="idata has no draws with a log-density"):
        kmc.best(idata.isel(draw=slice(0, 0)))
    with pytest.raises(TypeError, match="idata=int has no group 'posterior'"):
        kmc.best(3)


@pytest.mark.parametrize(
    "text", ["{", "[" * 10**5, "[1]", "{}", '{"log_density": "a"}', '{"log_density": 1e9}']
)
def test_a_record_that_was_forged(text):
    idata = kmc.sample(
        lambda x: -0.5 * float(x @ x),
        dim=1,
        sampler="random-walk",
        draws=20,
        seed=1,
        progress=False,
    )
    idata.attrs["best"] = text
    with pytest.raises(ValueError, match="attribute 'best' of idata is not what"):
        kmc.best(idata)
