import numpy as np
import pytest
from scipy.spatial import ConvexHull, Delaunay

from kmc.mcmc.probes import Evaluated, probe_points, probes_in_necks, probes_near
from kmc.surrogates.scale_group import ScaleGroup


def disc(n, seed=0):
    rng = np.random.default_rng(seed)
    angle, radius = rng.uniform(0, 2 * np.pi, n), np.sqrt(rng.random(n))
    return radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])


@pytest.mark.parametrize("dim", [1, 2, 7])
@pytest.mark.parametrize("n", [2, 5, 12, 300])
@pytest.mark.parametrize("count", [0, 1, 4])
def test_shape_and_determinism(dim, n, count):
    z = np.random.default_rng(1).standard_normal((n, dim))
    copy = z.copy()
    known = Evaluated(z, np.eye(dim), np.arange(n))
    probes = [probe_points(known, count, rng=np.random.default_rng(2)) for _ in range(2)]
    assert probes[0].shape == (count, dim) and np.all(np.isfinite(probes[0]))
    np.testing.assert_array_equal(*probes)
    np.testing.assert_array_equal(z, copy)
    if count:
        assert np.any(probes[0] != probe_points(known, count, rng=np.random.default_rng(3)))


def test_a_probe_extrapolates_from_a_neighbor_past_a_shallow_point():
    z = disc(60)
    shallow = np.flatnonzero(z[:, 0] > 0)
    for probe in probe_points(Evaluated(z, np.eye(2), shallow), 40, rng=np.random.default_rng(4)):
        anchor, neighbor = z[shallow][:, None], z[None]
        step, ahead = anchor - neighbor, probe - anchor
        with np.errstate(invalid="ignore", divide="ignore"):
            factor = np.sum(ahead * step, axis=2) / np.sum(step**2, axis=2)
        off = np.linalg.norm(ahead - factor[..., None] * step, axis=2)
        fits = (off < 1e-9) & (factor > 0.3 - 1e-9) & (factor < 1.2 + 1e-9)
        assert fits.any()
        # and the neighbor is among the nearest dozen
        rank = np.argsort(np.argsort(np.linalg.norm(step, axis=2), axis=1), axis=1)
        assert rank[fits].min() < 12


def test_most_probes_lie_past_the_edge_or_nearer_to_it_than_the_data():
    z = disc(1000)
    probes = probe_points(Evaluated(z, np.eye(z.shape[1]), np.arange(1000)), 300, rng=np.random.default_rng(5))
    hull = Delaunay(z[ConvexHull(z).vertices])
    outside = np.mean(hull.find_simplex(probes) < 0)
    radii = np.linalg.norm(probes, axis=1)
    assert outside > 0.35
    assert np.median(radii) > np.quantile(np.linalg.norm(z, axis=1), 0.9)
    assert radii.max() < 2.5  # just past it, not far away


def test_only_shallow_points_are_left():
    """Two clusters far apart: probes stay with the shallow one."""
    z = np.vstack([disc(50), disc(50) + 100.0])
    probes = probe_points(Evaluated(z, np.eye(z.shape[1]), np.arange(50)), 50, rng=np.random.default_rng(6))
    assert np.linalg.norm(probes, axis=1).max() < 10.0


def test_steps_are_damped_where_the_metric_is_short():
    """A point sticks out along the long direction alone; what it differs by elsewhere is not extrapolated."""
    rng = np.random.default_rng(7)
    z = rng.standard_normal((200, 3))
    metric = np.diag([2.0, 0.1, 0.1])
    shallow = np.array([int(np.argmax(z[:, 0]))])
    ahead = probe_points(Evaluated(z, metric, shallow), 50, rng=rng) - z[shallow]
    assert np.all(ahead[:, 0] > 0)
    assert np.abs(ahead[:, 1:]).max() < 1.2 * (0.1 / 2.0) ** 2 * np.ptp(z[:, 1:], axis=0).max()


def test_probes_beside_values_far_above_the_surrogate():
    rng = np.random.default_rng(5)
    z = rng.standard_normal((300, 2))
    excess = rng.standard_normal(300)
    excess[7] = 9.0
    points = probes_near(Evaluated(z, np.eye(2), np.arange(300)), excess, 400, rng=rng)
    near = np.linalg.norm(points - z[7], axis=1) < np.sort(np.linalg.norm(z - z[7], axis=1))[12]
    assert 0.08 < near.mean() < 0.4  # a sixth of the time it is among the fifty that are looked at
    nearest = np.min(np.linalg.norm(points[:, None] - z, axis=2), axis=1)
    assert np.quantile(nearest, 0.9) < 0.5 and np.all(nearest > 0)


def test_no_probes_are_none():
    z = np.zeros((5, 2))
    assert probes_near(Evaluated(z, np.eye(2), np.arange(5)), np.zeros(5), 0, rng=np.random.default_rng(0)).shape == (
        0,
        2,
    )


def test_probes_in_necks_have_smaller_scales_than_most():
    """The driver is a log-precision: small scales are at its upper end; distances in units of the scale are kept."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, 4))
    x[:, [0, 3]] = x[:, [1]] + np.exp(-0.5 * x[:, [2]]) * x[:, [0, 3]]
    group = ScaleGroup(driver=2, slope=-0.5, center=1, members=np.array([0, 3]))
    found = probes_in_necks(x, [group], 50, rng=rng)
    beyond = np.quantile(x[:, 2], 0.95)
    assert found.shape == (50, 4)
    assert np.all(found[:, 2] > beyond - 1e-9) and np.all(found[:, 2] < beyond + 5 * max(x[:, 2].std(), 2.0) + 1e-9)
    assert found[:, 2].max() > x[:, 2].max()

    def standardized(points):
        return np.column_stack([(points[:, i] - points[:, 1]) * np.exp(0.5 * points[:, 2]) for i in (0, 3)])

    starts = [int(np.argmin(np.abs(x[:, 1] - row[1]))) for row in found]
    np.testing.assert_allclose(standardized(found), standardized(x[starts]), rtol=1e-10)
