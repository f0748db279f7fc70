"""Names that other samplers' arguments have."""

import pytest

import kmc


def log_density(x):
    return -0.5 * float(x @ x)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tune": 500}, r"kmc.sample\(\) has no argument 'tune': use warmup="),
        ({"cores": 4}, "'cores': use executor="),
        ({"random_seed": 1}, "'random_seed': use seed="),
        ({"nwalkers": 32}, "'nwalkers': use chains="),
        ({"args": (1, 2)}, r"'args': use .*lambda x: f\(x, \*args\)"),
        ({"bounds": [(0, 1)]}, "'bounds': use .*Interval"),
        ({"vectorize": True}, "'vectorize': use .*vectorized=True"),
        ({"target_accept": 0.9}, "'target_accept': leave it out"),
        ({"drws": 10}, "did you mean draws="),
        ({"zzz": 10}, "expected one of target, dim, initial, .*max_time"),
    ],
)
def test_they_are_refused_with_ours(options, said):
    with pytest.raises(TypeError, match=said):
        kmc.sample(log_density, dim=2, **options)


def test_iterate_and_extend_do_so_too():
    with pytest.raises(TypeError, match=r"kmc.iterate\(\) .*'tune': use warmup="):
        kmc.iterate(log_density, dim=2, tune=500)
    with pytest.raises(TypeError, match=r"kmc.extend\(\) .*'cores': use executor="):
        kmc.extend("no.zarr", cores=2)
    with pytest.raises(TypeError, match=r"kmc.extend\(\) .*'tune': expected one of result, draws"):
        kmc.extend("no.zarr", tune=2)
