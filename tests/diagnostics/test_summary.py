"""Circular statistics, compared with scipy and ArviZ, and the table that has them."""

import json
from functools import partial

import arviz
import numpy as np
import pandas
import pytest
import xarray
from scipy import stats

import kmc
from kmc import cli
from kmc.diagnostics.summary import Circle
from kmc.run.results import container

pytestmark = pytest.mark.packages


@pytest.mark.parametrize(("low", "high"), [(-np.pi, np.pi), (0.0, 24.0), (-30.0, 330.0)])
def test_mean_and_sd_are_scipys(low, high):
    rng = np.random.default_rng(0)
    circle = Circle(low, high - low)
    for _ in range(5):
        values = circle.wrapped(rng.normal(low, 0.1 * (high - low), 300))
        assert low <= values.min() and values.max() < high
        # as angles: scipy's own tolerance at the border is absolute
        difference = circle.mean(values) - stats.circmean(values, high, low)
        assert abs(circle.around(np.array(difference), 0.0)) < 1e-9
        assert circle.sd(values) == pytest.approx(stats.circstd(values, high, low))


def test_the_mean_is_inside():
    assert Circle(0.0, 1.0).mean(np.array([1 - 1e-17, -1e-17])) < 1.0
    assert Circle(0.0, 1.0).wrapped(-1e-20) == 0.0


def test_a_uniform_circle_has_no_sd():
    assert Circle(0.0, 1.0).sd(np.arange(8) / 8) > 1.0


def results():
    rng = np.random.default_rng(1)
    posterior = xarray.Dataset(
        {
            "mu": (("chain", "draw"), rng.standard_normal((4, 200))),
            "phi": (("chain", "draw", "mode"), rng.normal([0.0, 90.0], 10.0, (4, 200, 2)) % 360.0),
            "last": (("chain", "draw"), rng.standard_normal((4, 200))),
        }
    )
    posterior["phi"].attrs = {"circular": 1, "low": 0.0, "period": 360.0}
    return {"posterior": posterior}


def test_the_rows_of_circular_variables():
    data = results()
    before = data["posterior"].copy(deep=True)
    table = kmc.summary(data)
    assert list(table.index) == ["mu", "phi[0]", "phi[1]", "last"]
    draws = data["posterior"]["phi"].values
    for k in (0, 1):
        row, values = table.loc[f"phi[{k}]"], draws[..., k]
        assert row["mean"] == pytest.approx(stats.circmean(values, 360))
        assert row["sd"] == pytest.approx(stats.circstd(values, 360))
        assert row["ess_bulk"] > 400 and row["mcse_mean"] < 1.0
    plain = arviz.summary(before[["mu", "last"]], round_to="none")
    np.testing.assert_allclose(table.loc[["mu", "last"]].to_numpy(float), plain.to_numpy(float))
    xarray.testing.assert_identical(data["posterior"], before)  # the user's data are unchanged


@pytest.mark.parametrize("data", [np.zeros((4, 100)), {"x": np.zeros((4, 100))}, None])
def test_data_without_a_posterior(data):
    with pytest.raises(
        TypeError, match=r"^idata=\w+ has no group 'posterior' with variables: expected"
    ):
        kmc.summary(data)


def test_names():
    assert list(kmc.summary(results(), ["last", "phi"]).index) == ["last", "phi[0]", "phi[1]"]
    elements = kmc.summary(results(), ["phi[1]", "mu"])
    assert list(elements.index) == ["phi[1]", "mu"]
    np.testing.assert_array_equal(elements, kmc.summary(results()).iloc[[2, 0]])
    with pytest.raises(
        ValueError, match=r"^var_names contains 'nu': expected some of 'mu', 'phi', 'last'"
    ):
        kmc.summary(results(), ["nu"])


VAR_NAMES = [
    (1, TypeError, r"^var_names=1: expected one name or several, or None"),
    ([], ValueError, r"^var_names=\[\] is empty: expected one name or several, or None"),
    (set(), ValueError, r"^var_names=set\(\) is empty: expected"),
    ([1], TypeError, r"^var_names contains 1: expected"),
]


@pytest.mark.parametrize(("var_names", "error", "message"), VAR_NAMES)
@pytest.mark.parametrize(
    "function",
    [
        kmc.summary,
        kmc.plot_pairs,
        kmc.plot_trace,
        kmc.diagnostics.slow_modes,
        kmc.diagnostics.langevin_gap,
        kmc.diagnostics.langevin_modes,
        partial(kmc.report, path="report.html"),
        partial(kmc.diagnostics.nested_rhat, superchains=2),
        partial(kmc.diagnostics.control_functional, f=np.sin, score=np.negative),
        partial(kmc.diagnostics.kernel_stein_discrepancy, score=np.negative),
    ],
)
def test_names_are_checked_by_every_function(function, var_names, error, message):
    with pytest.raises(error, match=message):
        function(container(results(), {}), var_names=var_names)


def test_the_command_prints_it(tmp_path, capsys):
    model = kmc.Model(
        lambda p: 20 * np.cos(p["phi"]), parameters={"phi": kmc.Circular(0, 2 * np.pi)}
    )
    idata = kmc.sample(model, sampler="random-walk", draws=400, warmup=200, seed=1, progress=False)
    idata.to_netcdf(tmp_path / "draws.nc")
    assert cli.main(["summary", str(tmp_path / "draws.nc")]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("phi"))
    assert 0.15 < float(row.split()[2]) < 0.35  # 1 / sqrt(20); of the numbers in [0, 2 pi) it is 3


# How it is printed

LONG = (
    "The chains disagree (R-hat 1.40): they have not converged; "
    "allow about 4,000 evaluations, or reparametrize."
)


def warned():
    data = results()
    data["posterior"] = data["posterior"].rename(
        last="a_parameter_with_quite_a_long_name_of_its_own"
    )
    data["posterior"].attrs = {
        "warnings": json.dumps([LONG]),
        "warning_codes": json.dumps(["chains-disagree"]),
    }
    return data


def test_a_summary_fits_a_terminal_and_has_the_warnings():
    for data in (results(), warned()):
        table = kmc.summary(data)
        text = repr(table)
        assert max(map(len, text.splitlines())) <= 80
        for name in table.index:
            assert name in text
        assert set(table.columns) >= {"mcse_mean", "mcse_sd", "r_hat"}  # all are in the table
    assert " ".join(text.split()).endswith(f"Warning: {LONG}")
    assert f"<li>{LONG}</li>" in table._repr_html_() and "1.00" in table._repr_html_()
    assert (
        "Warning" not in repr(kmc.summary(results()))
        and "<li>" not in kmc.summary(results())._repr_html_()
    )
    # parts are printed as usual
    assert type(table.iloc[:1]) is type(table.loc[:, ["mean"]]) is pandas.DataFrame


def test_the_warnings_of_a_result_by_code(tmp_path):
    assert kmc.warnings(warned()) == {"chains-disagree": LONG} and kmc.warnings(results()) == {}
    settings = {"dim": 2, "sampler": "random-walk", "draws": 20, "seed": 1, "progress": False}
    with pytest.warns(kmc.KmcWarning):
        idata = kmc.sample(lambda x: -0.5 * float(x @ x), store=tmp_path / "run.zarr", **settings)
    idata.to_netcdf(tmp_path / "draws.nc")
    assert "few-tail-draws" in kmc.warnings(idata)
    for other in (kmc.load(tmp_path / "run.zarr"), arviz.from_netcdf(tmp_path / "draws.nc")):
        assert kmc.warnings(other) == kmc.warnings(idata)
    for wrong in (None, 1, {}):
        with pytest.raises(
            TypeError, match="has no group 'posterior': pass a result of kmc.sample"
        ):
            kmc.warnings(wrong)
    data = warned()
    data["posterior"].attrs["warning_codes"] = "[]"
    with pytest.raises(ValueError, match="1 warnings and 0 codes"):
        kmc.warnings(data)
