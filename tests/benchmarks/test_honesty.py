"""The honest-numbers benchmark: counts and verdicts of made-up rows, and truths of its targets."""

import math

import honesty
import numpy as np
import pytest
from honesty_targets import TARGETS

RIGHT = {
    "target": "wedge",
    "budget": 1000,
    "seed": 1,
    "evidence": -0.69,
    "bias": 0.02,
    "bias_excess": -0.1,
    "width_min": 0.98,
    "width_max": 1.03,
    "width_excess": -0.1,
    "sd_ratio_error": 0.02,
    "kurtosis": 9.0,
    "share_error": "",
    "excess": 0.0,
    "failure": "",
    "z_mean": "0.5 -1",
    "z_sd": "1 2.2",
    "z_quantiles": "0.1 0.2 -0.3 nan",
    "z_evidence": "-1.2",
    "said_run": "",
    "said_expectations": "",
    "said_evidence": "",
    "seconds": 9.0,
    "label": "0123456",
}
FAR = RIGHT | {"z_quantiles": "0.1 -inf 0.2 3.6", "z_evidence": "4"}
OFF = {"sd_ratio_error": 1.8}


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({}, False),
        ({"bias_excess": 0.01}, True),  # by metrics.py
        ({"bias_excess": math.nan}, True),
        ({"width_max": 1.3}, True),  # by shape_rows.py
        ({"share_error": 0.2, "least_share": 0.6}, True),
        (OFF, True),
        (OFF | {"kurtosis": math.inf}, False),
        ({"failure": "3 draws", "bias": ""}, True),
    ],
)
def test_wrong_draws(changes, wrong):
    assert honesty.wrong(RIGHT | changes) == wrong


def test_numbers_with_a_warning_of_their_function_or_nan_are_not_counted():
    assert list(honesty.errors_of(RIGHT, "quantiles")) == [0.1, 0.2, -0.3]
    assert not len(honesty.errors_of(RIGHT | {"said_expectations": "Rough"}, "mean"))
    assert list(honesty.errors_of(RIGHT | {"said_expectations": "Rough"}, "evidence")) == [-1.2]
    assert not len(honesty.errors_of(RIGHT | {"said_evidence": "Unknown"}, "evidence"))


def test_what_is_silently_wrong():
    assert honesty.silent(RIGHT) == []
    assert honesty.silent(FAR) == [
        "quantiles (-inf, +3.6 stated errors)",
        "evidence (+4.0 stated errors)",
    ]
    assert honesty.silent(FAR | {"said_evidence": "x", "said_expectations": "y"}) == []
    assert honesty.silent(RIGHT | OFF | {"said_run": "drift"}) == []
    assert honesty.silent(RIGHT | OFF)[0].endswith("sd_ratio_error 1.8)")
    assert honesty.silent(RIGHT | {"failure": "3 draws", "bias": ""}) == ["draws (3 draws)"]


def test_the_table_counts():
    warned = FAR | {"said_evidence": "x", "said_expectations": "y", "evidence": math.nan}
    rows = [RIGHT, FAR | {"seed": 2}, warned, RIGHT | OFF, RIGHT | OFF | {"said_run": "drift"}]
    lines = honesty.table([*rows, RIGHT | {"said_run": "drift"}]).splitlines()
    counts = "6 | 100% of 10 | 50% of 10 | 88% of 16 | 80% of 5 | 3 | 1 | 1 | 2 | 1 | 1 | 9 |"
    assert lines[2] == f"| wedge | {counts}" and lines[3] == f"| all | {counts}"
    assert lines[5] == "Wrong without a warning:" and len(lines) == 9
    two = honesty.table([RIGHT, FAR | {"label": "89abcde"}]).splitlines()
    assert [line.split(" | ")[:2] for line in two[3:6]] == [
        ["| all of kmc 0123456", "1"],
        ["| all of kmc 89abcde", "1"],
        ["| all", "2"],
    ]
    assert two[-1].startswith("- wedge, seed 1, kmc 89abcde: ")
    assert honesty.table([RIGHT]).endswith("Nothing is wrong without a warning.")


@pytest.mark.parametrize(
    "name", ["wedge", "exponential", "moving-edge", "cosmology", "box", "narrow-1e-03"]
)
def test_evidence_is_the_integral_of_the_density(name):
    """The share of the draws in a box is the integral of the normalized density over it."""
    target, rng = TARGETS[name], np.random.default_rng(3)
    x = target.shape.density.sample(rng, 40_000)
    low, high = np.quantile(x, [0.4, 0.6], axis=0)
    uniform = low + (high - low) * rng.random((4000, 2))
    mass = np.exp([target.shape.density(row) - target.log_evidence for row in uniform]) * np.prod(
        high - low
    )
    share = np.mean(((x > low) & (x < high)).all(1))
    error = math.hypot(mass.std() / len(mass) ** 0.5, (share / len(x)) ** 0.5)
    assert abs(mass.mean() - share) < 4 * error
