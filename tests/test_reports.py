"""``kmc.report``, on a run of a random walk and on results made by hand; the pages are parsed."""

import base64
import json
from html.parser import HTMLParser

import numpy as np
import pytest
import xarray

import kmc
from kmc import cli

pytest.importorskip("matplotlib")
pytestmark = [pytest.mark.filterwarnings("ignore::kmc.KmcWarning"), pytest.mark.arviz]


class Parsed(HTMLParser):
    """The tags, texts and pictures of a page; tags must close in order."""

    VOID = ("meta", "img", "br")

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.text, self.open = [], [], "", []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data

    @property
    def pictures(self):
        return [attrs for tag, attrs in self.attributes if tag == "img"]


@pytest.fixture(scope="module")
def idata():
    model = kmc.Model(
        lambda p: -p["sigma"] - 0.5 * float(p["slope"] @ p["slope"]),
        parameters={"slope": kmc.Real(), "sigma": kmc.Positive()},
        dims={"slope": ["drug<b>"]},
        coords={"drug<b>": ["A&B", "<i>"]},
    )
    options = {"sampler": "random-walk", "draws": 60, "chains": 3, "seed": 1, "progress": False}
    return kmc.sample(model, save_warmup=True, **options)


@pytest.fixture(scope="module")
def page(idata, tmp_path_factory):
    path = kmc.report(
        idata, tmp_path_factory.mktemp("report") / "report.html", title="Doses & <answers>"
    )
    return path.read_text(encoding="utf-8")


def test_the_page_is_whole_and_small(page):
    parsed = Parsed(page)
    assert page.startswith("<!DOCTYPE html>") and len(page) < 2_000_000
    assert parsed.text.count("Doses & <answers>") == 2  # title and heading
    assert (
        parsed.tags.count("section") == 5 and "slope[<i>]" in parsed.text and "i" not in parsed.tags
    )


def test_nothing_is_loaded(page):
    for tag, attrs in Parsed(page).attributes:
        assert tag not in ("script", "link", "iframe", "object")
        assert attrs.get("src", "data:").startswith("data:")
    assert "url(" not in page and "@import" not in page


def test_it_can_be_read_without_seeing_it(page):
    parsed = Parsed(page)
    assert ("html", {"lang": "en"}) in parsed.attributes
    assert all(len(attrs["alt"]) > 30 for attrs in parsed.pictures)
    assert all(attrs["scope"] in ("row", "col") for tag, attrs in parsed.attributes if tag == "th")
    heads = [tag for tag in parsed.tags if tag in ("h1", "h2")]
    assert heads[0] == "h1" and heads.count("h1") == 1


def test_the_pictures_are_pictures(page):
    pictures = Parsed(page).pictures
    assert [attrs["alt"].split()[0] for attrs in pictures] == ["Marginal", "Traces", "Acceptance"]
    for attrs in pictures:
        assert base64.b64decode(attrs["src"].partition(",")[2])[:4] == b"\x89PNG"


def test_each_warning_has_its_code_and_sentence(page, idata):
    text = Parsed(page).text
    codes, sentences = (json.loads(idata.attrs[name]) for name in ("warning_codes", "warnings"))
    assert "few-tail-draws" in codes
    for code, sentence in zip(codes, sentences, strict=True):
        assert f"{code} (" in text and sentence in text
    assert f"{len(codes)} check" in text
    assert "Help" in text and "Draw more, with kmc.extend(" in text


def test_a_warning_of_another_version(tmp_path):
    kmc.report(
        by_hand(warnings='["Strange."]', warning_codes='["of-the-future"]'), tmp_path / "r.html"
    )
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "of-the-future" in text and "Strange." in text


def test_the_costs_are_those_of_the_run(page, idata):
    text = Parsed(page).text
    assert (
        f"{idata.attrs['n_evaluations']:,}, {idata.attrs['n_evaluations_warmup']:,} of them in "
        f"warm-up" in text
    )
    assert "3 chains of 60" in text and "random-walk" in text and "arXiv:1506.02564" in text


def by_hand(draws=400, lp=None, **attrs):
    """Independent normal draws, in what a report asks of InferenceData and of a DataTree."""
    rng = np.random.default_rng(0)
    x = xarray.Dataset({"x": (("chain", "draw"), rng.standard_normal((4, draws)))}, attrs=attrs)
    if lp is None:
        return {"posterior": x}
    both = {
        "lp": (("chain", "draw"), lp),
        "surrogate": (("chain", "draw"), lp + 7.0 + 0.1 * rng.standard_normal(lp.shape)),
    }
    return {"posterior": x, "proposals": xarray.Dataset(both)}


def text_of(idata, tmp_path, **options):
    return Parsed(
        kmc.report(idata, tmp_path / "r.html", **options).read_text(encoding="utf-8")
    ).text


def test_the_workers_of_a_run_are_among_its_costs(tmp_path):
    spent = {
        "workers": 64,
        "workers_waited": 0.25,
        "evaluation_seconds": 0.5,
        "longest_evaluation_seconds": 12.0,
    }
    text = text_of(by_hand(**spent), tmp_path)
    assert "64, idle 25% of the time; an evaluation took 0.5 s on average, 12 s at most" in text


def test_draws_of_another_library(tmp_path):
    text = text_of(by_hand(), tmp_path)
    assert "no record of its run's checks" in text and "The least effective sample size is" in text
    assert "advised" not in text and "evaluations of the log-density" not in text


def test_a_run_without_warnings_is_called_good(tmp_path):
    idata = by_hand(warnings="[]", warning_codes="[]", n_evaluations=2000)
    assert "No check of the run failed." in text_of(idata, tmp_path)
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert 'class="good"' in page and 'class="bad"' not in page


def test_chains_that_disagree_are_called_bad(tmp_path):
    idata = by_hand(warnings="[]", warning_codes="[]")
    idata["posterior"]["x"] += 3 * xarray.DataArray(np.arange(4.0), dims="chain")
    assert "An R-hat of at most 1.01" in text_of(idata, tmp_path)


def test_the_surrogate_against_the_truth(tmp_path):
    lp = -np.random.default_rng(1).exponential(size=(4, 400))
    lp[0, :5] = -np.inf
    kmc.report(by_hand(lp=lp), tmp_path / "r.html")
    alts = [
        attrs["alt"] for attrs in Parsed((tmp_path / "r.html").read_text(encoding="utf-8")).pictures
    ]
    # 1.645 x .1: no constant
    assert "nine of ten are within 0.16 nats" in alts[-1] or "within 0.17 nats" in alts[-1]


@pytest.mark.slow
def test_slow_modes_and_the_error_along_them(tmp_path):
    """A product of two parameters that never changes its sign within a chain."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((4, 100, 2))
    x[..., 1] = np.abs(x[..., 1]) * np.sign(x[..., 0]) * np.array([1, -1, 1, -1])[:, None]
    lp = -0.5 * np.sum(x**2, axis=2)
    both = {"lp": lp, "surrogate": lp + 0.1 * rng.standard_normal(lp.shape), "accepted": lp < -0.1}
    proposals = xarray.Dataset({name: (("chain", "draw"), values) for name, values in both.items()})
    posterior = xarray.Dataset({"x": (("chain", "draw", "d"), x)})
    tree = xarray.DataTree.from_dict({"posterior": posterior, "proposals": proposals})
    text = text_of(tree, tmp_path)
    assert "The slowest functions of all parameters" in text and "along the slowest mode" in text
    assert (
        kmc.diagnostics.slow_modes(posterior, 2, var_names=["x[0]", "x[1]"]).attrs["verdict"]
        in text
    )
    kmc.diagnostics.slow_modes(tree, 1, n_basis=10, add_group=True)
    tree["slow_modes"].attrs["verdict"] = "Kept with the draws."
    assert "Kept with the draws." in text_of(tree, tmp_path)


def test_a_run_without_draws(tmp_path):
    text = text_of(
        by_hand(
            draws=0, warnings='["The run ended within warm-up."]', warning_codes='["no-draws"]'
        ),
        tmp_path,
    )
    assert "made 0 draws in each chain" in text and "no-draws (" in text


def test_a_parameter_that_never_moved(tmp_path):
    idata = by_hand()
    idata["posterior"]["c"] = xarray.full_like(idata["posterior"]["x"], 3.0)
    assert "–" in text_of(idata, tmp_path)
    assert "No parameter moved." in text_of(idata, tmp_path, var_names=["c"])


def test_bad_arguments_are_named(tmp_path):
    with pytest.raises(TypeError, match="idata=dict has no group 'posterior'"):
        kmc.report({}, tmp_path / "r.html")
    with pytest.raises(TypeError, match="path=3: expected the name of a file"):
        kmc.report(by_hand(), 3)
    with pytest.raises(TypeError, match="title=5: expected a string"):
        kmc.report(by_hand(), tmp_path / "r.html", title=5)
    with pytest.raises(ValueError, match="var_names contains 'y'"):
        kmc.report(by_hand(), tmp_path / "r.html", var_names=["y"])
    with pytest.raises(IsADirectoryError):
        kmc.report(by_hand(), tmp_path)


def test_the_command(idata, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    idata.to_netcdf("draws.nc", engine="h5netcdf")
    assert cli.main(["report", "draws.nc", "--var-names", "sigma"]) == 0
    assert capsys.readouterr().out == "draws.html\n"
    text = Parsed((tmp_path / "draws.html").read_text(encoding="utf-8")).text
    assert "few-tail-draws" in text and "slope" not in text
    assert cli.main(["report", "missing.zarr"]) == 1
    assert "there is no such file or store" in capsys.readouterr().err
