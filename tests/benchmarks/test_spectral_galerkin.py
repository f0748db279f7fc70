"""Figure 3 of the Galerkin paper shares its sums over samples: its errors are those of the
package's estimators.
"""

import numpy as np
import pytest
import spectral_galerkin
from paper_entries import rows
from spectral_problems import Sphere


@pytest.mark.filterwarnings("ignore:n_components")
def test_the_errors_of_figure_3_are_those_of_the_estimators():
    x, truth = (
        Sphere(3).sample(np.random.default_rng(0), 300),
        Sphere(3).eigenvalues(spectral_galerkin.MODES),
    )
    found = spectral_galerkin.metrics(x)
    grid = len(spectral_galerkin.KERNELS) * len(spectral_galerkin.FUNCTIONS)
    assert len(found) == grid * (1 + len(spectral_galerkin.WIDTHS))
    for method, kernel, p, width in [
        ("Galerkin", "polynomial 3", 30, ""),
        ("Galerkin", "exponential 1", 100, ""),
        ("graph Laplacian", "exponential 1", 30, 0.2),
        ("graph Laplacian", "polynomial 3", 100, 0.4),
    ]:
        estimate = spectral_galerkin._fitted(method, x, kernel, p, width)
        error = spectral_galerkin._error(method, estimate, truth)
        np.testing.assert_allclose(found[method, kernel, p, width], error, rtol=1e-5)


def test_the_appendix_prints_figures_7_to_10_from_the_stored_rows():
    text = spectral_galerkin.appendix(rows("galerkin_figure3"))
    assert [f"Figure{name}" in text for name in ("s 7 and 8", " 9", " 10")] == [True] * 3
