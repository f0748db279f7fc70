"""One random Fourier feature at one point (Rahimi and Recht 2007, algorithm 1)."""

from __future__ import annotations

import math


def feature(x, frequency, phase, amplitude, count):
    """√(2/p) a cos(ω·x + b), of p features."""
    return math.sqrt(2 / count) * amplitude * math.cos(frequency @ x + phase)


def feature_gradient(x, frequency, phase, amplitude, count):
    """-√(2/p) a sin(ω·x + b) ω."""
    return -math.sqrt(2 / count) * amplitude * math.sin(frequency @ x + phase) * frequency


def feature_laplacian(x, frequency, phase, amplitude, count):
    """-√(2/p) a cos(ω·x + b) |ω|²."""
    return (
        -math.sqrt(2 / count)
        * amplitude
        * math.cos(frequency @ x + phase)
        * (frequency @ frequency)
    )
