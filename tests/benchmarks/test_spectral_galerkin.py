import numpy as np
import pytest
import spectral_galerkin

from tests.grids import slow_except


def test_spherical_harmonics_are_orthonormal():
    """Over a product quadrature, which is exact for polynomials of this degree."""
    z, w = np.polynomial.legendre.leggauss(10)
    angle = np.linspace(0.0, 2.0 * np.pi, 20, endpoint=False)
    ring = np.sqrt(1.0 - z**2)[:, None]
    height = np.repeat(z[:, None], 20, axis=1)
    points = np.stack([ring * np.cos(angle), ring * np.sin(angle), height], axis=-1).reshape(-1, 3)
    weights = np.repeat(w / 40.0, 20)
    functions = np.hstack([spectral_galerkin.harmonics_of(points, degree) for degree in (1, 2, 3)])
    np.testing.assert_allclose(functions.T @ (weights[:, None] * functions), np.eye(15), atol=1e-12)


def test_half_moons_are_half_circles():
    x, moon, angle = spectral_galerkin.half_moons(np.random.default_rng(0), 500, noise=0.0)
    center = np.where(moon[:, None] == 0, [0.0, 0.0], [1.0, 0.5])
    np.testing.assert_allclose(np.linalg.norm(x - center, axis=1), 1.0)
    np.testing.assert_allclose(np.abs((x - center)[:, 0]), np.abs(np.cos(angle)))


@pytest.mark.parametrize("name", slow_except(["figure2", "figure4", "figure6"], {"figure2"}))
def test_figures_have_rows_and_a_picture(name, tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    make, key = spectral_galerkin.FIGURES[name]
    rows, picture = make("small")
    assert len({tuple(row[column] for column in key) for row in rows}) == len(rows)
    assert spectral_galerkin.table(name, rows).count("\n") > 5
    picture(tmp_path / "picture.png")
    assert 5_000 < (tmp_path / "picture.png").stat().st_size < 150_000


def test_eigenvalues_of_the_sphere_are_those_along_it():
    rows, _ = spectral_galerkin.figure2("small")
    for row in rows:
        ratio = row["eigenvalue"] / row["truth"]
        assert row["share in harmonics"] > 0.98
        assert 0.85 < ratio < 1.15 if row["form"] == "along the sphere" else ratio > 1.3


def test_hermite_polynomials_are_orthonormal_and_found():
    nodes, w = np.polynomial.hermite_e.hermegauss(8)
    points = np.stack(np.meshgrid(nodes, nodes), axis=-1).reshape(-1, 2)
    weights = np.outer(w, w).ravel() / w.sum() ** 2
    functions = np.hstack([spectral_galerkin.hermite_of(points, degree) for degree in (1, 2, 3)])
    np.testing.assert_allclose(functions.T @ (weights[:, None] * functions), np.eye(9), atol=1e-12)
    for row in spectral_galerkin.figure6("small")[0]:
        assert row["eigenvalue"] == pytest.approx(row["truth"], rel=0.15)
        assert row["share in polynomials"] > 0.9


def test_the_appendix_shows_the_best_of_each_grid():
    head = {"dim": 3, "n": 100, "spread": 0.0, "seconds": 0.5}
    own = [
        head | {"method": "Galerkin", "width": "", "kernel": k, "p": p, "error": e}
        for k, p, e in (
            ("polynomial 3", 30, 0.5),
            ("exponential 1", 100, 0.4),
            ("gaussian 1", 30, 0.2),
            ("gaussian 3", 100, 0.3),
        )
    ]
    graph = [head | {"method": "graph Laplacian", "width": 0.3, "kernel": "gaussian 1", "p": 100, "error": 0.6}]
    shown = spectral_galerkin.appendix(own + graph)
    assert "| Galerkin | 3 | kernel | gaussian 1 |" in shown
    assert "| Galerkin | 3 | p | 30 |" in shown
    assert "| graph Laplacian | 3 | error | 0.6 |" in shown
    assert "| 3 | 100 | 0.5 (3) | 0.4 (1) | 0.2 (1) |" in shown
