"""Wall times against workers: what the page says of the rows."""

import scaling


def test_every_stored_row_is_a_cell():
    cells = set(scaling.cells())
    rows = scaling.load(scaling.RESULTS / "scaling.csv")
    assert rows and {tuple(row[name] for name in scaling.KEY) for row in rows} <= cells


def test_efficiency_by_workers():
    """Sixteen workers that need an eighth of the time of one work half of it for the same result."""
    row = {
        "sampler": "emcee DEMove",
        "target": "logistic",
        "price": "lognormal",
        "seconds": 1.0,
        "chains": 256,
        "seed": 1,
    }
    rows = [row | {"workers": 1, "wall": 4000.0, "ess": 500.0}, row | {"workers": 16, "wall": 500.0, "ess": 500.0}]
    rows += [row | {"sampler": "pocoMC", "workers": 64, "wall": 30.0, "ess": 1000.0}]
    assert scaling.workers_table(rows).splitlines()[2:] == [
        "| emcee DEMove | 8,000 (100%) |  | 1,000 (50%) |  |  |",
        "| pocoMC |  |  |  | 30 |  |",
    ]
