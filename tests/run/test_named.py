"""Models with named parameters, from the log-density to the file of results."""

import dataclasses
import json

import arviz
import numpy as np
import pytest
from scipy import special, stats

import kmc
from kmc.model.model import Model
from kmc.run.results import to_arviz
from tests.run.sweeps import trace
from tests.values import groups

pytestmark = pytest.mark.packages

ALPHA = np.array([2.0, 3.0, 5.0])
SMALL = kmc.KernelHMC(learning_share=0.1)


def log_density(parameters, alpha):
    """Gamma(4, rate 2), Beta(2.5, 1.5), Dirichlet(alpha), two standard normals and a uniform
    correlation matrix.
    """
    s, u, w = parameters["s"], parameters["u"], parameters["w"]
    return (
        3 * np.log(s)
        - 2 * s
        + 1.5 * np.log(u)
        + 0.5 * np.log1p(-u)
        + np.sum((alpha - 1) * np.log(w))
        - 0.5 * np.sum(parameters["m"] ** 2)
    )


MODEL = Model(
    log_density,
    parameters={
        "s": kmc.Positive(),
        "u": kmc.Interval(0, 1),
        "w": kmc.Simplex(3),
        "m": kmc.Real(),
        "factor": kmc.CorrelationCholesky(2),
    },
    dims={"w": ["kind"], "m": ["site"]},
    coords={"kind": ["rock", "sand", "silt"], "site": ["A", "B"]},
    args=(ALPHA,),
)
VARIABLES = {
    "s": ("chain", "draw"),
    "u": ("chain", "draw"),
    "w": ("chain", "draw", "kind"),
    "m": ("chain", "draw", "site"),
    "factor": ("chain", "draw", "factor_dim_0", "factor_dim_1"),
}


@pytest.fixture(scope="module")
def idata():
    return kmc.sample(
        MODEL,
        sampler=SMALL,
        draws=120,
        max_evaluations=1200,
        seed=2,
        progress=False,
        save_warmup=True,
    )


def check(idata):
    assert {name: idata["posterior"][name].dims for name in VARIABLES} == VARIABLES
    assert set(idata["posterior"].data_vars) == set(VARIABLES)
    assert list(idata["posterior"]["kind"].values) == ["rock", "sand", "silt"]
    assert list(idata["posterior"]["factor_dim_1"].values) == [0, 1]
    assert idata["unconstrained_posterior"]["x"].dims == ("chain", "draw", "x_dim_0")
    x = idata["unconstrained_posterior"]["x"].values
    assert x.shape == (4, 120, MODEL.dim)
    for name, value in MODEL.constrain(x.reshape(-1, MODEL.dim)).items():
        np.testing.assert_array_equal(idata["posterior"][name].values.reshape(value.shape), value)
    at = x[1, 7]
    assert idata["sample_stats"]["lp"].values[1, 7] == pytest.approx(
        MODEL.call(at) + MODEL.log_jacobian(at)
    )


def test_draws_have_names_dimensions_and_labels(idata):
    check(idata)
    assert groups(idata) == {
        "posterior",
        "sample_stats",
        "proposals",
        "surrogate",
        "unconstrained_posterior",
        "warmup_posterior",
        "warmup_sample_stats",
        "final_state",
        "evaluations",
    }
    assert idata["warmup_posterior"]["w"].dims == VARIABLES["w"]


def test_a_netcdf_file_gives_the_same_back(idata, tmp_path):
    idata.to_netcdf(tmp_path / "run.nc")
    check(arviz.from_netcdf(tmp_path / "run.nc"))


def test_means_are_those_of_the_posterior(idata):
    """And second moments, each within four and a half standard errors by ArviZ's effective sample
    size.
    """
    posterior = idata["posterior"]
    known = {
        "s": (stats.gamma(4, scale=0.5), posterior["s"]),
        "log s": (stats.loggamma(4, -np.log(2)), np.log(posterior["s"])),
        "u": (stats.beta(2.5, 1.5), posterior["u"]),
        "rho": (stats.uniform(-1, 2), posterior["factor"][:, :, 1, 0]),
        "m": (stats.norm(), posterior["m"][:, :, 1]),
    } | {
        f"w{k}": (stats.beta(ALPHA[k], ALPHA.sum() - ALPHA[k]), posterior["w"][:, :, k])
        for k in range(len(ALPHA))
    }
    for name, (law, draws) in known.items():
        for power in (1, 2):
            values = np.asarray(draws.values) ** power
            error = values.std() / np.sqrt(effective_size(values))
            assert abs(values.mean() - law.moment(power)) < 4.5 * error, (name, power)
    log_share = np.log(posterior["w"].values[:, :, 0])
    error = log_share.std() / np.sqrt(effective_size(log_share))
    assert abs(log_share.mean() - (special.digamma(2) - special.digamma(10))) < 4.5 * error


def effective_size(values):
    found = arviz.ess(arviz.convert_to_dataset({"v": values}), method="mean")
    return float(np.asarray(found["v"].values))


def test_diagnostics_read_named_draws(idata):
    modes = kmc.diagnostics.slow_modes(idata, n_modes=2, n_basis=40)
    assert {"s", "w[silt]", "factor[1, 0]"} <= set(modes["parameter"].values.tolist())
    assert np.isfinite(modes["rhat"]).all()
    summary = arviz.summary(idata, var_names=["s", "w", "m"])
    assert list(summary.index) == ["s", "w[rock]", "w[sand]", "w[silt]", "m[A]", "m[B]"]


def test_no_draws_have_names_too():
    result = to_arviz(MODEL, wide_trace(0), wide_trace(3))
    assert result["posterior"]["w"].shape == (3, 0, 3) and result["warmup_posterior"][
        "w"
    ].shape == (3, 3, 3)
    assert result["unconstrained_posterior"]["x"].shape == (3, 0, MODEL.dim)


def wide_trace(draws):
    return trace(draws, dim=MODEL.dim)


START = {
    "s": np.array([0.5, 1.0, 2.0, 4.0]),
    "u": np.array([0.1, 0.4, 0.6, 0.9]),
    "w": np.full((4, 3), 1 / 3),
    "m": np.arange(8.0).reshape(4, 2) / 4,
    "factor": np.tile(np.eye(2), (4, 1, 1)),
}


def first_evaluations(initial, model=MODEL):
    seen = []

    def watched(parameters, alpha):
        seen.append(parameters)
        return log_density(parameters, alpha)

    watching = dataclasses.replace(model, log_density=watched, dim=None)
    kmc.sample(
        watching, initial=initial, sampler="random-walk", draws=2, warmup=0, seed=0, progress=False
    )
    return seen[:4]


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
@pytest.mark.parametrize("kind", ["arrays", "mappings", "vectors", "the model's own"])
def test_start_points_by_name(kind):
    each = [{name: value[i] for name, value in START.items()} for i in range(4)]
    model = (
        dataclasses.replace(MODEL, initial=START, dim=None) if kind == "the model's own" else MODEL
    )
    initial = {"arrays": START, "mappings": each, "vectors": MODEL.start_points(START, 4)}.get(kind)
    seen = first_evaluations(initial, model)
    for name, value in START.items():
        np.testing.assert_allclose([point[name] for point in seen], value, atol=1e-12)


def test_a_start_outside_the_support_is_named():
    with pytest.raises(
        ValueError,
        match=r"initial: the parameter 'u' has the value 1.5 in point 2: expected numbers",
    ):
        first_evaluations(START | {"u": np.array([0.1, 0.4, 1.5, 0.9])})


@pytest.mark.filterwarnings("ignore::kmc.KmcWarning")
def test_the_same_model_by_hand_gives_the_same_draws():
    """A function of the vector with the Jacobian in it makes the same run."""

    def vector(x):
        return MODEL.call(x) + MODEL.log_jacobian(x)

    with_names, without = (
        kmc.sample(target, sampler="random-walk", draws=20, warmup=20, seed=3, progress=False)
        for target in (MODEL, Model(vector, MODEL.dim))
    )
    np.testing.assert_array_equal(
        with_names["unconstrained_posterior"]["x"], without["posterior"]["x"]
    )
    assert json.loads(without.attrs["warnings"]) == json.loads(with_names.attrs["warnings"])
