"""The chains' exact spectra, compared with each other and with long runs of the chains."""

import numpy as np
import pytest
from spectral_chains import CHAINS, COUNT, errors, truth_on_the_data


@pytest.mark.slow
@pytest.mark.parametrize("chain", CHAINS[:2], ids=lambda chain: chain.name)
def test_a_chain_has_the_spectrum_of_its_grid(chain):
    """The true eigenfunctions decorrelate at the rates of the eigenvalues."""
    _, truth, _ = chain.spectrum
    found = [truth_on_the_data(chain, chain.simulate(100_000, seed)) for seed in range(4)]
    error = np.std(found, axis=0, ddof=1) / 2
    assert np.all(np.abs(np.mean(found, axis=0) - truth) < 6 * error)  # Student's t with three degrees: 1 %


def test_the_four_wells_have_the_published_time_scales():
    """In steps of 0.005, from another discretization of the same process."""
    slow = -1 / np.log(CHAINS[2].spectrum[1])
    np.testing.assert_allclose(slow[:3], [166.8, 25.35, 13.02], rtol=1e-3)


def test_eigenfunctions_are_orthogonal_and_descend():
    for chain in CHAINS[:2]:
        x, values, functions = chain.spectrum
        assert np.all(np.diff(values) < 0) and values[0] < 1 and len(values) == COUNT
        weights = np.exp(-chain.potential(x))
        gram = functions.T @ (weights[:, None] * functions)
        np.testing.assert_allclose(gram / gram[0, 0], np.eye(COUNT), atol=1e-8)


def test_errors():
    truth = np.array([0.99, 0.5, 0.25])
    largest, slow = errors(np.array([0.98, 0.52]), truth)
    assert largest == 0.25  # a missing eigenvalue counts as zero
    assert slow == pytest.approx(1 - np.log(0.99) / np.log(0.98))
