import numpy as np
import pytest
from spectral_scaling import CLAIMS, SCANS, assemble, exponent, galerkin_costs, gaussian_samples, graph_costs, solve


def test_exponents_of_powers():
    sizes = [10, 30, 100, 300]
    assert exponent(sizes, [2.0 * n**1.5 for n in sizes]) == pytest.approx((1.5, 0.0), abs=1e-9)
    assert exponent([1, 2, 4], [1.0, 3.0, 4.0])[1] == pytest.approx(np.log2(1.5) / np.sqrt(3))


def test_what_is_timed_is_the_spectrum():
    """Of N(0, 1): eigenvalues 1, 2, 3 of the generator are 1/2, 1/3, 1/4 of mass in mass and energy."""
    x, basis = gaussian_samples(20_000, 60, 1)
    np.testing.assert_allclose(solve(basis, assemble(basis, x))[::-1][:3], [1 / 2, 1 / 3, 1 / 4], rtol=0.05)


def test_every_claim_has_a_scan():
    for claim in CLAIMS:
        at = "npd".index(claim.varied)
        assert sum(sizes[at] >= claim.least for sizes in SCANS[claim.method, claim.varied]) >= 2
        costs = {"Galerkin": galerkin_costs, "graph": graph_costs}[claim.method](100, 10, 2, 1)
        assert claim.measure in costs
