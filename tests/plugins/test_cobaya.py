"""cobaya's Gaussian of the quickstart has the moments that integration on a grid gives."""

import numpy as np
import pytest

pytest.importorskip("cobaya")

from cobaya.run import run
from scipy import stats

import kmc

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.arviz,
]  # budgets are small, and cobaya has warnings of its own

MEAN, COVARIANCE = [0.2, 0.0], [[0.1, 0.05], [0.05, 0.2]]


def quickstart(**options):
    """Return the input of cobaya's quickstart, with kmc as the sampler."""
    return {
        "likelihood": {"gaussian_mixture": {"means": MEAN, "covs": COVARIANCE, "derived": True}},
        "params": {
            "a": {"prior": {"min": -0.5, "max": 3}, "latex": r"\alpha"},
            "b": {"prior": {"dist": "norm", "loc": 0, "scale": 1}, "ref": 0, "latex": r"\beta"},
            "derived_a": {"latex": r"\alpha^\prime"},
            "derived_b": {"latex": r"\beta^\prime"},
        },
        "sampler": {"kmc.plugins.cobaya.Kmc": {"progress": False, "seed": 1, **options}},
    }


def moments():
    """Return means and standard deviations (2,) of the posterior, by a grid."""
    a, b = np.meshgrid(np.linspace(-0.5, 3, 1501), np.linspace(-4, 4, 1501), indexing="ij")
    points = np.stack([a, b], axis=-1)
    weight = stats.multivariate_normal(MEAN, COVARIANCE).pdf(points) * stats.norm.pdf(b)
    weight[0] *= 0.5  # trapezoids: the density is not zero at the lower bound of a
    weight /= weight.sum()
    mean = np.einsum("ij,ijk->k", weight, points)
    return mean, np.sqrt(np.einsum("ij,ijk->k", weight, (points - mean) ** 2))


def test_quickstart(tmp_path):
    _, sampler = run(
        quickstart(max_evaluations=2000, draws=None), output=str(tmp_path / "chains" / "line")
    )
    mean, sd = moments()
    table = kmc.summary(sampler.idata)
    sample = sampler.products()["sample"]
    draws = sample[["a", "b"]].to_numpy()
    assert len(draws) > 1000 and np.all(sample["weight"] == 1)
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 4 * table["mcse_mean"])
    assert np.all(np.abs(draws.std(axis=0) - sd) < 4 * table["mcse_sd"])
    for k in (0, 500):  # what the run has kept is what cobaya computes
        row = sample.data.iloc[k]
        there = sampler.model.logposterior({"a": row["a"], "b": row["b"]})
        assert -row["minuslogpost"] == pytest.approx(there.logpost)
        assert -row["minuslogprior"] == pytest.approx(there.logprior)
        assert list(row[["derived_a", "derived_b"]]) == pytest.approx(there.derived)
    written = np.loadtxt(tmp_path / "chains" / "line.1.txt")
    np.testing.assert_allclose(written[:, 2:4], draws, rtol=1e-6, atol=1e-7)
    assert sampler.samples(to_getdist=True).getMeans()[:2] == pytest.approx(draws.mean(axis=0))


def counted(limit, **options):
    """Return an input without derived parameters, whose likelihood fails after so many calls, and
    their number.
    """
    calls = []

    def likelihood(a, b):
        calls.append((a, b))
        if len(calls) > limit:
            raise RuntimeError("the node failed")
        return float(stats.multivariate_normal(MEAN, COVARIANCE).logpdf([a, b]))

    found = quickstart(max_evaluations=300, draws=None, **options)
    found["likelihood"] = {"mine": {"external": likelihood, "input_params": ["a", "b"]}}
    found["params"] = {name: found["params"][name] for name in ("a", "b")}
    return found, calls


def test_a_failed_run_is_resumed_and_repeated_by_force(tmp_path):
    output = str(tmp_path / "chains" / "line")
    with pytest.raises(kmc.EvaluationError, match="node failed") as error:
        run(counted(200, seed=None)[0], output=output, stop_at_error=True)
    assert error.value.idata.attrs["n_evaluations"] >= 200
    with pytest.raises(Exception, match="resume"):
        run(counted(1000, seed=None)[0], output=output)
    info, calls = counted(1000, seed=None)
    _, sampler = run(info, output=output, resume=True)
    assert len(calls) < 110 < sampler.idata.attrs["n_evaluations"]
    assert len(sampler.samples()) == sampler.idata.posterior["a"].size
    info, calls = counted(1000, seed=None)
    run(info, output=output, force=True)
    assert len(calls) > 250


def test_a_run_is_determined_by_its_seed():
    first, again, other = (run(counted(1000, seed=seed)[0])[1].samples() for seed in (1, 1, 2))
    np.testing.assert_array_equal(first["a"], again["a"])
    assert not np.any(other["a"][0] == first["a"][0])
