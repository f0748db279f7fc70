"""The Lotka-Volterra posterior, slow and literal: natural scale, scipy.stats, a tight solver, then
the Jacobian.
"""

from __future__ import annotations

import numpy as np
from scipy import stats
from scipy.integrate import solve_ivp

HARE = (
    "30.0 47.2 70.2 77.4 36.3 20.6 18.1 21.4 22.0 "
    "25.4 27.1 40.3 57.0 76.6 52.3 19.5 11.2 7.6 14.6 16.2 24.7"
)
LYNX = (
    "4.0 6.1 9.8 35.2 59.4 41.7 19.0 13.0 "
    "8.3 9.1 7.4 8.0 12.3 19.5 45.7 51.1 29.7 15.8 9.7 10.1 8.6"
)


def solution(alpha, beta, gamma, delta, hare, lynx):
    """Hares and lynx at 1900, ..., 1920, shape (2, 21)."""

    def slope(_, z):
        u, v = z
        return [(alpha - beta * v) * u, (-gamma + delta * u) * v]

    return solve_ivp(
        slope, (0, 20), [hare, lynx], "DOP853", np.arange(21.0), rtol=1e-12, atol=1e-12
    ).y


def log_density_natural(alpha, beta, gamma, delta, hare, lynx, sigma_hare, sigma_lynx):
    """Log p(parameters, data) as a density of the parameters themselves."""

    def truncated(mean, sd):
        return stats.truncnorm(-mean / sd, np.inf, loc=mean, scale=sd)

    log_p = truncated(1, 0.5).logpdf(alpha) + truncated(1, 0.5).logpdf(gamma)
    log_p += truncated(0.05, 0.05).logpdf(beta) + truncated(0.05, 0.05).logpdf(delta)
    log_p += stats.lognorm(s=1, scale=np.exp(-1)).logpdf([sigma_hare, sigma_lynx]).sum()
    log_p += stats.lognorm(s=1, scale=10).logpdf([hare, lynx]).sum()
    u, v = solution(alpha, beta, gamma, delta, hare, lynx)
    log_p += stats.lognorm(s=sigma_hare, scale=u).logpdf(np.array(HARE.split(), float)).sum()
    log_p += stats.lognorm(s=sigma_lynx, scale=v).logpdf(np.array(LYNX.split(), float)).sum()
    return log_p


def log_density(x):
    """As a density of x = log(parameters): |d exp(x)/dx| = exp(sum x)."""
    return log_density_natural(*np.exp(x)) + np.sum(x)
