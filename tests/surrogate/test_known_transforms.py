"""Parameters as functions of their coordinates in jitted loops: those of the model, with their
derivatives.
"""

import numpy as np
import pytest
from scipy import stats

import kmc
from kmc import likelihoods as of
from kmc.run.structure import structured
from kmc.surrogate.known import check_transforms, constrained

PARAMETERS = {
    "real": kmc.Normal(0, 1),
    "above": kmc.LowerBound(-2.0),
    "below": kmc.UpperBound(3.0),
    "between": kmc.Interval(-1.0, 4.0),
    "unit": stats.beta(2, 3),
}
MODEL = kmc.Model(
    simulator=lambda p: p["real"] * np.ones(3),
    likelihood=of.Normal(np.zeros(3), sd=1.0),
    parameters=PARAMETERS,
)
TRANSFORMS = structured(MODEL).structure.parameters.transforms


def at(x):
    theta, slopes = np.empty(len(x)), np.empty(len(x))
    constrained(TRANSFORMS, x, theta, slopes)
    return theta, slopes


@pytest.mark.parametrize("scale", [1.0, 5.0])
def test_they_are_those_of_the_model(scale):
    for x in scale * np.random.default_rng(1).standard_normal((50, MODEL.dim)):
        theta, slopes = at(x)
        expected = MODEL.constrain(x[None])
        np.testing.assert_allclose(theta, [expected[name][0] for name in PARAMETERS], rtol=1e-9)
        # All of these are functions of one coordinate, so that the log-Jacobian is a sum.
        assert np.log(np.abs(slopes)).sum() == pytest.approx(
            MODEL.log_jacobian(x), rel=1e-6, abs=1e-6
        )
        differences = (at(x + 1e-6)[0] - at(x - 1e-6)[0]) / 2e-6
        np.testing.assert_allclose(slopes, differences, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(
    "wrong",
    [
        {"kinds": np.full(5, 4)},
        {"kinds": np.zeros(5)},
        {"ends": np.zeros(5)},
        {"lower": np.zeros(4)},
    ],
)
def test_arrays_of_a_file_are_checked(wrong):
    check_transforms(TRANSFORMS, 5)
    with pytest.raises(ValueError, match=r"array|between"):
        check_transforms(TRANSFORMS._replace(**wrong), 5)
