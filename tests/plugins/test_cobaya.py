"""cobaya's Gaussian of the quickstart has the moments that integration on a grid gives."""

import numpy as np
import pytest

pytest.importorskip("cobaya")

from cobaya.run import run
from scipy import stats

import kmc

pytestmark = pytest.mark.filterwarnings("ignore")  # budgets are small, and cobaya has warnings of its own

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
    _, sampler = run(quickstart(max_evaluations=2000, draws=None), output=str(tmp_path / "chains" / "line"))
    mean, sd = moments()
    table = kmc.summary(sampler.idata)
    sample = sampler.products()["sample"]
    draws = sample[["a", "b"]].to_numpy()
    assert len(draws) > 1000 and np.all(sample["weight"] == 1)
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 4 * table["mcse_mean"])
    assert np.all(np.abs(draws.std(axis=0) - sd) < 4 * table["mcse_sd"])
    for k in (0, 500):  # what the run has kept is what cobaya computes
        row = sample[k]
        there = sampler.model.logposterior({"a": row["a"], "b": row["b"]})
        assert -row["minuslogpost"] == pytest.approx(there.logpost)
        assert -row["minuslogprior"] == pytest.approx(there.logprior)
        assert list(row[["derived_a", "derived_b"]]) == pytest.approx(there.derived)
    written = np.loadtxt(tmp_path / "chains" / "line.1.txt")
    np.testing.assert_allclose(written[:, 2:4], draws, rtol=1e-6, atol=1e-8)
    assert sampler.samples(to_getdist=True).getMeans()[:2] == pytest.approx(draws.mean(axis=0))


def test_a_run_is_determined_by_its_seed_and_repeated_by_force(tmp_path):
    output = str(tmp_path / "chains")
    first, again = (
        run(quickstart(max_evaluations=200, draws=None), output=output, force=True)[1].samples() for _ in range(2)
    )
    np.testing.assert_array_equal(first["a"], again["a"])
    other = run(quickstart(max_evaluations=200, draws=None, seed=2))[1].samples()
    assert not np.any(other["a"][0] == first["a"][0])
