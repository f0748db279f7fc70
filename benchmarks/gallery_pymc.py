"""Models of PyMC's gallery, some of them reduced; ``gallery.py`` samples them.

Data are the published ones if these are short, and otherwise simulated with a seed.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt

SCHOOLS = list("ABCDEFGH")
EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
AT_BATS = 45
HITS = np.array([18, 17, 16, 15, 14, 14, 13, 12, 11, 11, 10, 10, 10, 10, 10, 9, 8, 7])  # Efron and Morris (1975)
# Coal mining disasters in each year from 1851 to 1961; two are missing.
DISASTERS = (
    "454014340633402633545314415534252234213-2111130010110031032201110101000210001102331-211112420014000100000100101"
)


def schools_centered() -> pm.Model:
    """Rubin's eight schools, centered, with the funnel."""
    with pm.Model(coords={"school": SCHOOLS}) as model:
        mu = pm.Normal("mu", 0.0, 5.0)
        tau = pm.HalfCauchy("tau", 5.0)
        theta = pm.Normal("theta", mu, tau, dims="school")
        pm.Normal("effect", theta, ERRORS, observed=EFFECTS, dims="school")
    return model


def schools_noncentered() -> pm.Model:
    """The same, non-centered."""
    with pm.Model(coords={"school": SCHOOLS}) as model:
        mu = pm.Normal("mu", 0.0, 5.0)
        tau = pm.HalfCauchy("tau", 5.0)
        z = pm.Normal("z", dims="school")
        theta = pm.Deterministic("theta", mu + tau * z, dims="school")
        pm.Normal("effect", theta, ERRORS, observed=EFFECTS, dims="school")
    return model


def baseball() -> pm.Model:
    """Hierarchical partial pooling: batting averages of eighteen players; large kappa_log overflows."""
    with pm.Model(coords={"player": np.arange(len(HITS))}) as model:
        phi = pm.Uniform("phi", lower=0.0, upper=1.0)
        kappa_log = pm.Exponential("kappa_log", lam=1.5)
        kappa = pm.Deterministic("kappa", pt.exp(kappa_log))
        thetas = pm.Beta("thetas", alpha=phi * kappa, beta=(1.0 - phi) * kappa, dims="player")
        pm.Binomial("hits", n=AT_BATS, p=thetas, observed=HITS, dims="player")
    return model


def radon() -> pm.Model:
    """Varying intercepts of counties of unequal size: the multilevel primer, simulated for twelve counties."""
    county, floor, log_radon = houses()
    with pm.Model(coords={"county": np.arange(county.max() + 1)}) as model:
        center = pm.Normal("center", 0.0, 10.0)
        spread = pm.Exponential("spread", 1.0)
        intercept = pm.Normal("intercept", center, spread, dims="county")
        slope = pm.Normal("slope", 0.0, 10.0)
        noise = pm.Exponential("noise", 1.0)
        pm.Normal("log_radon", intercept[county] + slope * floor, noise, observed=log_radon)
    return model


def houses() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The county, the floor and the log of the radon of each."""
    rng = np.random.default_rng(1)
    sizes = np.array([2, 3, 3, 4, 5, 6, 8, 10, 12, 16, 24, 40])
    county = np.repeat(np.arange(len(sizes)), sizes)
    floor = rng.integers(0, 2, len(county)).astype(float)
    intercepts = rng.normal(1.5, 0.35, len(sizes))
    log_radon = intercepts[county] - 0.65 * floor + rng.normal(0.0, 0.75, len(county))
    return county, floor, log_radon


def logistic_regression() -> pm.Model:
    """A binary outcome and three predictors, two of them correlated."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((120, 3))
    x[:, 2] = 0.8 * x[:, 1] + 0.6 * x[:, 2]
    answer = rng.random(120) < 1.0 / (1.0 + np.exp(-(0.4 + x @ [1.2, -0.8, 0.3])))
    with pm.Model(coords={"predictor": ["a", "b", "c"]}) as model:
        intercept = pm.Normal("intercept", 0.0, 2.5)
        slope = pm.Normal("slope", 0.0, 2.5, dims="predictor")
        pm.Bernoulli("answer", logit_p=intercept + x @ slope, observed=answer.astype(int))
    return model


def robust_regression() -> pm.Model:
    """A line through points with outliers, by a Student-t likelihood of unknown degrees of freedom."""
    rng = np.random.default_rng(3)
    x = np.linspace(0.0, 1.0, 60)
    y = 1.0 + 2.0 * x + 0.3 * rng.standard_normal(60)
    y[[8, 15, 41]] += [4.0, 3.0, -5.0]
    with pm.Model() as model:
        intercept = pm.Normal("intercept", 0.0, 5.0)
        slope = pm.Normal("slope", 0.0, 5.0)
        scale = pm.HalfNormal("scale", 1.0)
        freedom = pm.Gamma("freedom", 2.0, 0.1)
        pm.StudentT("y", nu=freedom, mu=intercept + slope * x, sigma=scale, observed=y)
    return model


def changepoint() -> pm.Model:
    """Coal mining disasters, with a smooth change over about a year."""
    year, count = np.array([(i, int(digit)) for i, digit in enumerate(DISASTERS) if digit != "-"]).T
    with pm.Model() as model:
        switch = pm.Uniform("switch", 0.0, 110.0)
        early = pm.Exponential("early", 1.0)
        late = pm.Exponential("late", 1.0)
        rate = early + (late - early) * pm.math.sigmoid(year - switch)
        pm.Poisson("disasters", rate, observed=count)
    return model


def mixture() -> pm.Model:
    """Two normal components, identified by the order of their means."""
    rng = np.random.default_rng(4)
    y = np.concatenate([rng.normal(-1.5, 0.7, 50), rng.normal(1.5, 1.0, 70)])
    with pm.Model(coords={"component": [0, 1]}) as model:
        share = pm.Dirichlet("share", np.full(2, 2.0), dims="component")
        ordered = pm.distributions.transforms.ordered
        mean = pm.Normal("mean", 0.0, 3.0, dims="component", transform=ordered, initval=[-1.0, 1.0])
        sd = pm.HalfNormal("sd", 2.0, dims="component")
        pm.NormalMixture("y", share, mean, sd, observed=y)
    return model


def stochastic_volatility() -> pm.Model:
    """Twenty returns whose log-volatility is a random walk; the walk is among the parameters."""
    rng = np.random.default_rng(5)
    log_volatility = -1.0 + np.cumsum(0.25 * rng.standard_normal(20))
    returns = np.exp(log_volatility) * rng.standard_t(8, 20)
    with pm.Model(coords={"day": np.arange(20)}) as model:
        step = pm.Exponential("step", 5.0)
        walk = pm.GaussianRandomWalk("walk", sigma=step, init_dist=pm.Normal.dist(-1.0, 1.0), dims="day")
        freedom = pm.Gamma("freedom", 2.0, 0.1)
        pm.StudentT("returns", nu=freedom, sigma=pt.exp(walk), observed=returns, dims="day")
    return model


def gaussian_process() -> pm.Model:
    """Hyperparameters of a Gaussian process, with the function integrated out."""
    rng = np.random.default_rng(6)
    x = np.sort(rng.uniform(0.0, 10.0, 30))[:, None]
    y = 1.5 * np.sin(x[:, 0]) + 0.3 * rng.standard_normal(30)
    with pm.Model() as model:
        length = pm.Gamma("length", 3.0, 2.0)
        height = pm.HalfNormal("height", 3.0)
        noise = pm.HalfNormal("noise", 1.0)
        process = pm.gp.Marginal(cov_func=height**2 * pm.gp.cov.ExpQuad(1, ls=length))
        process.marginal_likelihood("y", X=x, y=y, sigma=noise)
    return model
