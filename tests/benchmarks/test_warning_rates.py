"""The benchmark of the warnings: states of runs, warnings from stored numbers, and counts."""

import math

import pytest
import warning_rates

WELL = {
    "target": "ring",
    "budget": 3000,
    "independent_runs": 1,
    "seed": 1,
    "draws": 400,
    "bias": 0.02,
    "width_min": 0.98,
    "width_max": 1.03,
    "bias_excess": -0.1,
    "width_excess": -0.1,
    "acceptance": 0.9,
    "tail_acceptance": 0.85,
    "stay": 1.2,
    "longest_stay": 60.0,
    "rhat": 1.001,
    "tail_ess": 1000.0,
    "ess": 1000.0,
    "drift": -0.2,
    "disagreement": math.nan,
    "piece_rhat": 1.01,
    "free_acceptance": 0.3,
    "surrogate_loo_sd": 0.1,
    "surrogate_trend_sd": 1.8,
    "surrogate_metric_spread": 300.0,
    "inner_chain_length": 12,
    "n_evaluations_warmup": 1000,
}
SHORT = WELL | {"width_min": 0.9, "tail_acceptance": 0.3}
WRONG = SHORT | {"width_excess": 0.05}


@pytest.mark.parametrize(
    ("row", "state"),
    [
        (WELL, "right"),
        (SHORT, "off"),
        (WELL | {"bias": 0.2}, "off"),
        (WELL | {"width_max": 1.1}, "off"),
        (WRONG, "wrong"),
        (WELL | {"bias_excess": 0.01}, "wrong"),
        (WELL | {"bias_excess": math.nan}, "wrong"),
    ],
)
def test_states(row, state):
    assert warning_rates.state(row) == state


def test_warnings_come_from_the_stored_numbers():
    assert warning_rates.fired(WELL) == []
    assert warning_rates.fired(SHORT) == ["curved-ridge"]
    assert warning_rates.fired(WELL | {"surrogate_loo_sd": math.nan}) == ["no-surrogate"]
    assert warning_rates.fired(WELL | {"draws": 0}) == ["no-draws"]


def test_the_table_counts():
    rows = [WELL, WELL, WELL | {"stay": 20.0}, SHORT, WRONG, WRONG | {"tail_acceptance": 0.8}]
    lines = warning_rates.table(rows).splitlines()
    assert lines[2:] == [
        "| any | 1 of 2 (50%) | 1 of 1 (100%) | 1 of 3 (33%) |",
        "| curved-ridge | 1 of 2 (50%), 1 alone | 1 of 1 (100%), 1 alone | 0 of 3 (0%) |",
        "| stuck-chain | 0 of 2 (0%) | 0 of 1 (0%) | 1 of 3 (33%), 1 alone |",
    ]
    assert warning_rates.by_target(rows).splitlines()[-1] == "| ring | 2, 1 | 1, 1 | 3, 1 |"
