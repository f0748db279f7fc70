"""What notebooks show of samplers and estimators."""

from html.parser import HTMLParser

import numpy as np
import pytest

import kmc


class Table(HTMLParser):
    """Rows of the table, and what is in bold."""

    def __init__(self, html):
        super().__init__()
        self.rows, self.bold, self.open = {}, [], []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "th" in self.open:
            self.name = data
        elif "td" in self.open:
            self.rows[self.name] = data
        if "b" in self.open:
            self.bold.append(data)


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        (kmc.KernelHMC(archive_probability=0.125), {"archive_probability": "0.125"}),
        (kmc.RandomWalkMetropolis(scale=np.array([0.5, 2.0])), {"scale": "array([0.5, 2. ])"}),
        (kmc.AdaptiveMetropolis(), {}),
        (kmc.ScoreHMC(kmc.scores.LiteKEF(n_basis=7)), {"estimator": "LiteKEF(n_basis=7)"}),
    ],
    ids=["kernel-hmc", "random-walk", "adaptive", "score-hmc"],
)
def test_a_sampler_is_a_table_of_its_options(options, changed):
    table = Table(options._repr_html_())
    assert len(table.rows) >= 2 and table.rows.items() >= changed.items()
    assert table.bold == [type(options).__name__, *changed.values()]


def test_an_estimator_says_whether_it_is_fitted():
    estimator = kmc.scores.GaussianScore()
    assert "GaussianScore</b>(), not fitted" in estimator._repr_html_()
    estimator.fit(np.random.default_rng(0).standard_normal((20, 2)))
    assert "GaussianScore</b>(), fitted" in estimator._repr_html_()
    lite = kmc.scores.LiteKEF(kernel="matern52<")
    assert Table(lite._repr_html_()).rows["kernel"] == "'matern52<'" and "matern52&lt;" in lite._repr_html_()


def test_long_values_are_cut():
    table = Table(kmc.RandomWalkMetropolis(scale=np.linspace(1, 2, 200))._repr_html_())
    assert len(table.rows["scale"]) == 200 and table.rows["scale"].endswith("…")
