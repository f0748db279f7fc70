"""Table 2 of the paper on sketches takes data from CSV files."""

from types import SimpleNamespace

import numpy as np
import pytest
import spectral_sketches
from score_results import Results


@pytest.mark.parametrize("names", [("A", "B"), ("0", "1"), ("-1.0", "1.0")])
def test_table_2_measures_each_method_on_a_csv_file(names, tmp_path, monkeypatch):
    monkeypatch.setattr(spectral_sketches, "bundled", dict)
    rng = np.random.default_rng(0)
    lines = [
        f"{x:.3f},{y:.3f},{name}"
        for k, name in enumerate(names)
        for x, y in rng.normal(9.0 * k, 1.0, (30, 2))
    ]
    path = tmp_path / "two.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    results = Results(tmp_path / "rows.csv", spectral_sketches.PARTS["table2"][0])
    spectral_sketches.run_table2(results, SimpleNamespace(data=[path], seeds=1, rerun=False))
    assert [row["data"] for row in results.rows.values()] == ["two"] * len(
        spectral_sketches.METHODS
    )
    assert all(row["rand"] == 1.0 for row in results.rows.values())
