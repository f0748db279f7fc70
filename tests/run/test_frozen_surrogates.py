"""What the main phase evaluated, and the frozen surrogate, in the result."""

import numpy as np
import pytest
import xarray

import kmc
from kmc.run.frozen_surrogates import as_group, decoded, flattened
from kmc.run.results import container
from kmc.samplers.base import MOVES
from kmc.surrogate.coordinates.transport import IDENTITY
from kmc.surrogate.coordinates.walls import NO_WALL, WallState
from kmc.surrogate.coordinates.whitening import Whitening
from kmc.surrogate.density import Component, Density
from tests.control_variates.synthetic import gaussian_state
from tests.values import groups

pytestmark = pytest.mark.packages

EYE = np.eye(2)
SETTINGS = {"draws": 60, "max_evaluations": 600, "seed": 3, "progress": False, "chains": 4}


def log_density(x):
    return -0.5 * (x[0] ** 2 / 4 + (x[1] - 0.1 * x[0] ** 2) ** 2)


def bounded(p):
    return -0.5 * p["a"] ** 2 - p["b"]


@pytest.fixture(scope="module")
def idata():
    return kmc.sample(log_density, dim=2, **SETTINGS)


def test_the_result_holds_every_proposal_and_its_values(idata):
    proposals, draws = idata["proposals"], idata["posterior"]["x"].values
    x, lp = proposals["x"].values, proposals["lp"].values
    np.testing.assert_array_equal(lp.ravel(), [log_density(row) for row in x.reshape(-1, 2)])
    accepted = proposals["accepted"].values
    np.testing.assert_array_equal(x[accepted], draws[accepted])
    assert np.sum(~accepted) > 0 and np.any(x[~accepted] != draws[~accepted])
    stayed = idata["sample_stats"]["n_evaluations"].values[:, 1:] == 0
    np.testing.assert_array_equal(x[:, 1:][stayed], draws[:, :-1][stayed])
    np.testing.assert_array_equal(proposals["move"], idata["sample_stats"]["move"])
    assert proposals["move"].attrs["flag_meanings"] == " ".join(MOVES)


def test_the_surrogate_is_rebuilt_from_a_file(idata, tmp_path):
    import arviz

    idata.to_netcdf(tmp_path / "run.nc")
    read = arviz.from_netcdf(tmp_path / "run.nc")
    frozen = decoded(read["surrogate"])[0]
    x = read["proposals"]["x"].values[2]
    np.testing.assert_array_equal(
        frozen.density(2).log_density(x), read["proposals"]["surrogate"].values[2]
    )
    near = idata["proposals"]["lp"].values - idata["proposals"]["surrogate"].values
    assert np.median(np.abs(near)) < 0.1
    for name, kind in {
        "structure": bytes,
        "numbers": bytes,
        "index": np.integer,
        "chains": np.integer,
    }.items():
        assert all(isinstance(value, kind) for value in read["surrogate"][name].values), name


def test_parameters_with_names_are_constrained_without_the_model(tmp_path):
    model = kmc.Model(bounded, parameters={"a": kmc.Real(), "b": kmc.Positive()})
    idata = kmc.sample(model, store=tmp_path / "run.zarr", **SETTINGS)
    for result in (idata, kmc.load(tmp_path / "run.zarr")):
        constrain = decoded(result["surrogate"])[0].constrain
        found = constrain(result["unconstrained_posterior"]["x"].values.reshape(-1, 2))
        for name in ("a", "b"):
            np.testing.assert_array_equal(found[name], result["posterior"][name].values.ravel())


@pytest.mark.slow
def test_a_store_gives_the_same_groups(tmp_path):
    path = tmp_path / "run.zarr"
    idata = kmc.sample(log_density, dim=2, store=path, independent_runs=2, **SETTINGS)
    loaded = kmc.load(path)
    for name in ("proposals", "surrogate"):
        assert loaded[name].equals(idata[name])
    part = loaded["proposals"]["surrogate"].isel(chain=3, draw=slice(5, 50, 7))
    np.testing.assert_array_equal(part, idata["proposals"]["surrogate"].values[3, 5:50:7])
    frozen = decoded(loaded["surrogate"])[0]
    assert len(frozen.densities) == 2
    assert frozen.density(1) is frozen.densities[0] and frozen.density(2) is frozen.densities[1]
    longer = kmc.extend(path, draws=20, target=log_density, progress=False)
    assert longer["proposals"]["surrogate"].shape == (4, idata["posterior"].sizes["draw"] + 20)
    assert decoded(longer["surrogate"])[0].densities[0].components


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{"save_surrogate": False}, {"sampler": "adaptive-metropolis"}],
    ids=["off", "another sampler"],
)
def test_there_is_none(options, tmp_path):
    idata = kmc.sample(log_density, dim=2, store=tmp_path / "run.zarr", **SETTINGS, **options)
    for result in (idata, kmc.load(tmp_path / "run.zarr")):
        assert not groups(result) & {"proposals", "surrogate"}


def test_the_option_is_checked():
    with pytest.raises(TypeError, match=r"save_surrogate=3: expected True or False"):
        kmc.sample(log_density, dim=2, save_surrogate=3, **SETTINGS)


def test_a_group_of_another_version_is_refused_in_words(idata):
    group = idata["surrogate"].copy(deep=True)
    group["structure"].values[:] = b"x"
    with pytest.raises(
        ValueError, match=r"the group surrogate was written by kmc .* and cannot be read by kmc"
    ):
        decoded(group)
    dataset = group if isinstance(group, xarray.Dataset) else group.to_dataset()
    with pytest.raises(ValueError, match=r"cannot be read by kmc .*: it is of another layout"):
        decoded(dataset[["structure", "numbers"]])


def forged(change):
    """The group of a surrogate in two dimensions with another compiled state, as in a file from
    anybody.
    """
    known = dict.fromkeys(("ends", "slopes", "bent_ends", "bent_slopes"), EYE)
    state = gaussian_state([0.0, 0.0], centers=[[1.0, 0.0]], coefficients=[1.0], **known)
    whitening = Whitening(np.zeros(2), np.eye(2), np.eye(2))
    return as_group(flattened([Density((Component(IDENTITY, whitening, change(state)),))], None), 2)


def wall_of(*, dim=2, planes=1, curved=0):
    shapes = {"matrix": (dim, dim), "shift": (dim,), "bias": (1,), "linear": (planes, dim)}
    arrays = {name: np.ones(shape) for name, shape in shapes.items()}
    return lambda state: state._replace(
        wall=WallState(**arrays, quadratic=np.ones((curved, dim, dim)))
    )


@pytest.mark.parametrize(
    "change",
    {
        "a short location": lambda s: s._replace(location=np.zeros(1)),
        "a small matrix": lambda s: s._replace(metric=np.eye(1)),
        "few coefficients": lambda s: s._replace(coefficients=np.zeros(0)),
        "many coefficients": lambda s: s._replace(coefficients=np.zeros(2)),
        "few ends": lambda s: s._replace(ends=np.zeros((1, 2))),
        "few features": lambda s: s._replace(bent_centers=np.zeros((1, 1))),
        "a scale without its features": lambda s: s._replace(rates=np.zeros((1, 2))),
        "short slopes": lambda s: s._replace(slopes=np.zeros((2, 1))),
        "whole numbers": lambda s: s._replace(precision=np.eye(2, dtype=int)),
        "a list": lambda s: s._replace(location=[0.0, 0.0]),
        "a wall of more dimensions": wall_of(dim=3),
        "a wall of more planes": wall_of(planes=3),
        "a wall of more curved parts": wall_of(curved=2),
        "a wall of another class": lambda s: s._replace(wall=(0.0,)),
        "another class": lambda s: NO_WALL,
    }.items(),
    ids=lambda item: item[0],
)
def test_a_surrogate_whose_arrays_do_not_fit_is_refused(change):
    """Compiled loops would read and write beyond the arrays."""
    for right in (lambda state: state, wall_of(), wall_of(curved=1)):
        assert decoded(forged(right))[0].densities[0].dim == 2
    with pytest.raises(ValueError, match="cannot be read by kmc"):
        decoded(forged(change[1]))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("chains", [0, 2]),
        ("chains", [10**15, 2]),
        ("chains", [-1, 2]),
        ("index", [7, 1]),
        ("structure", ["[" * 10**5, ""]),
        ("structure", ['["instance", "os:system", {}]', ""]),
        ("structure", [1.0, 2.0]),
        ("numbers", ["%", ""]),
    ],
)
def test_a_group_that_was_forged_is_refused(name, values):
    group = forged(lambda state: state)
    group[name] = ("chain", np.array(values))
    with pytest.raises(ValueError, match=r"cannot be read by kmc|keep all chains"):
        decoded(group)


@pytest.mark.parametrize(
    ("group", "change"),
    [
        ("proposals", lambda group: group.isel(x_dim_0=[0])),
        ("proposals", lambda group: group.astype(str)),
        ("sample_stats", lambda group: group.astype(object)),
        ("posterior", lambda group: group.astype(complex)),
    ],
)
def test_a_result_whose_arrays_do_not_fit_is_refused(idata, group, change):
    copy = {name: idata[name].copy() for name in groups(idata)}
    copy = {
        name: one.to_dataset() if hasattr(one, "to_dataset") else one for name, one in copy.items()
    }
    copy[group] = change(copy[group])
    for function in (kmc.expectations, kmc.evidence):
        with pytest.raises(ValueError, match="result has"):
            function(container(copy, dict(idata.attrs)))
