"""Targets that return invalid values or misbehave."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import kmc
from kmc.errors import EvaluationError
from tests.malformed.cases import corrupted, finite, in_time
from tests.malformed.examples import X, the


class Odd:
    """A log-density that is normal for some calls and then fails, once or permanently."""

    def __init__(self, returned, good, once, vectorized=False):
        self.returned, self.good, self.once, self.vectorized, self.calls = (
            returned,
            good,
            once,
            vectorized,
            0,
        )

    def __repr__(self):
        return (
            f"Odd({self.returned!r}, good={self.good}, "
            f"once={self.once}, vectorized={self.vectorized})"
        )

    def __call__(self, x):
        self.calls += 1
        if self.calls == self.good + 1 or (self.calls > self.good and not self.once):
            if isinstance(self.returned, BaseException):
                raise self.returned
            return self.returned(x) if callable(self.returned) else self.returned
        return -0.5 * np.sum(x * x, axis=-1)


def spoil(x):
    x[...] = np.nan
    return -1.0


def with_blob(name, blob):
    return -1.0, {name: blob}


class Strange(Exception):
    def __str__(self):
        raise RuntimeError("no words")


RETURNED = st.one_of(
    corrupted(-1.0),
    st.sampled_from(
        [
            *(
                -np.inf,
                -1e308,
                1e308,
                np.float64(-1.0),
                np.longdouble(-1),
                np.array(-1.0),
                np.array([-1.0]),
            ),
            *(
                lambda x: x,
                lambda x: -x,
                lambda x: x[0],
                lambda x: np.zeros(len(x)),
                lambda x: np.zeros((len(x), 1)),
            ),
            *(
                lambda x: np.full(len(x), np.nan),
                lambda x: (-1.0, {}),
                lambda x: (-1.0, None),
                lambda x: (-1.0, 2.0),
            ),
            *(
                spoil,
                Strange(),
                ValueError("bad"),
                ZeroDivisionError(),
                StopIteration(3),
                MemoryError(),
            ),
            *(
                AssertionError(),
                Warning("no error"),
                np.linalg.LinAlgError("singular"),
                OSError(2, "none"),
            ),
        ]
    ),
    st.builds(with_blob, st.sampled_from(["a", "x", "chain", "", "a/b", 1]), corrupted(X)),
    st.builds(with_blob, st.just("a"), corrupted(1.0)),
)
TARGETS = st.builds(
    Odd, RETURNED, good=st.integers(0, 9), once=st.booleans(), vectorized=st.booleans()
)


@the("returned")
@given(TARGETS, st.sampled_from(["raise", "reject", "retry"]), st.sampled_from(["reject", "raise"]))
def test_what_a_target_returns(target, on_error, nonfinite):
    model = kmc.Model(
        target, dim=2, vectorized=target.vectorized, on_error=on_error, nonfinite=nonfinite
    )
    try:
        with in_time():
            idata = kmc.sample(
                model,
                initial=X[:2],
                sampler="random-walk",
                draws=6,
                warmup=4,
                chains=2,
                seed=0,
                progress=False,
            )
    except EvaluationError as error:
        assert "log_density" in str(error)
        batch = len(np.atleast_2d(error.position))  # one row: the best start point again
        finite(error.position, (2,) if error.position.ndim == 1 else (min(batch, 2), 2))
        assert np.all(np.isfinite(error.idata.posterior["x"].values))
    except ValueError as error:
        # the density is zero at each, or tiny
        assert "initial" in str(error) or "start point" in str(error)
    else:
        finite(idata.posterior["x"].values, (2, 6, 2))
        finite(idata.sample_stats["lp"].values, (2, 6))
