import numpy as np
import pytest
import spectral_galerkin


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


@pytest.mark.parametrize("name", ["figure2", "figure4"])
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
