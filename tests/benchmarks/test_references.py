"""References by quadrature."""

import numpy as np
import pytest
from references import by_quadrature, closed_form
from scipy import stats


def test_moments_and_quantiles_by_quadrature():
    """Of a log-gamma variable and of a normal one that depends on it."""
    first = stats.loggamma(4.0)
    lines = [np.linspace(-12, 8, 101), np.linspace(-12, 12, 101)]
    found = closed_form(by_quadrature(lambda x: first.logpdf(x[0]) - 0.5 * (x[1] - x[0]) ** 2, lines))
    mean, variance, excess = (float(value) for value in first.stats("mvk"))
    assert found["mean"] == pytest.approx([mean, mean], abs=1e-5)
    assert found["sd"] == pytest.approx([variance**0.5, (variance + 1) ** 0.5], abs=1e-5)
    assert found["kurtosis"][0] == pytest.approx(3 + excess, abs=1e-3)
    assert found["quantiles"][:, 0] == pytest.approx(first.ppf([0.05, 0.95]), abs=1e-5)
