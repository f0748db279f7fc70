import numpy as np

from kmc.kernels import exponential, exponentials


def test_exact_to_rounding():
    x = -np.concatenate(
        [
            np.linspace(0, 700, 100_001),
            np.logspace(-300, 2, 20_001),
            [0.0, np.log(2) / 2, np.log(2)],
        ]
    )
    out = np.empty_like(x)
    exponentials(x, out)
    exact = np.exp(x.astype(np.longdouble))
    # one, and that of the longdouble
    assert np.max(np.abs(out - exact) / np.spacing(exact.astype(float))) < 1.5
    assert (out[x == 0] == 1.0).all()


def test_of_positive_numbers_too():
    x = np.linspace(0, 700, 1001)
    out = np.empty_like(x)
    exponentials(x, out)
    np.testing.assert_allclose(out, np.exp(x), rtol=1e-15)


def test_bottoms_out():
    x = np.array([-700.0, -701.0, -1e300, -np.inf])
    out = np.empty(4)
    exponentials(x, out)
    np.testing.assert_array_equal(out, out[0])
    assert 0 < out[0] < 1e-300


def test_nan_stays():
    x = np.tile([-1.0, np.nan, 0.0, -800.0], 5)
    out = np.empty(20)
    exponentials(x, out)
    np.testing.assert_array_equal(np.isnan(out), np.isnan(x))


def test_one_is_as_many():
    """The vectorized loop and its scalar remainder round alike: a result does not depend on where
    in a block it is.
    """
    x = -np.random.default_rng(0).random(37) * 50
    out = np.empty(37)
    exponentials(x, out)
    np.testing.assert_array_equal(out, [exponential(v) for v in x])
