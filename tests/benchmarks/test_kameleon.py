"""The comparison of Kameleon's paper."""

import kameleon
import numpy as np
import pytest


def test_exact_draws_have_no_deviation():
    rng = np.random.default_rng(1)
    banana, normal, _ = kameleon.TARGETS["banana-8d"]
    assert kameleon.quantile_deviation(normal(banana.sample(rng, 4000))) < 0.02
    angle, radius = rng.uniform(0, 2 * np.pi, 4000), 10.0 + rng.standard_normal(4000)
    radius += 6.0 * np.cos(6.0 * angle)
    draws = np.column_stack([radius * np.cos(angle), radius * np.sin(angle), rng.standard_normal((4000, 6))])
    assert kameleon.quantile_deviation(kameleon.Flower.normal(draws)) < 0.02
    assert kameleon.quantile_deviation(2.0 * kameleon.Flower.normal(draws)) > 0.3
    assert kameleon.Flower()(np.array([16.0, 0, 0, 0, 0, 0, 0, 1.0])) == pytest.approx(-0.5)


def test_rows_are_kept_and_shown(tmp_path, monkeypatch):
    monkeypatch.setattr(kameleon, "RESULTS", tmp_path / "rows.csv")
    row = kameleon.run("banana-8d", "plain adaptive Metropolis", 400, 1)
    kameleon.append_row(kameleon.RESULTS, kameleon.COLUMNS, row)
    kameleon.append_row(kameleon.RESULTS, kameleon.COLUMNS, {**row, "seed": 2})
    assert [found["seed"] for found in kameleon.read_rows(kameleon.RESULTS)] == ["1", "2"]
    assert "| banana-8d | 400 | plain adaptive Metropolis | 2 |" in kameleon.table(kameleon.read_rows(kameleon.RESULTS))
