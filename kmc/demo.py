"""``kernelmc demo``: sample a real posterior without gradients, and compare with published results.

The model is :mod:`kmc.model.lotka_volterra`: eight parameters, an ODE solver as the simulator.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from scipy.special import erfinv

from kmc.model import lotka_volterra as lv
from kmc.unwritable import import_arviz

LABELS = {
    "alpha": r"$\alpha$",
    "beta": r"$\beta$",
    "gamma": r"$\gamma$",
    "delta": r"$\delta$",
    "z_init_hare": "hares\nin 1900",
    "z_init_lynx": "lynx\nin 1900",
    "sigma_hare": r"$\sigma_\mathrm{hare}$",
    "sigma_lynx": r"$\sigma_\mathrm{lynx}$",
}
_CURVES = 300  # draws for which the equations are solved, for the picture


def run(directory=".", max_evaluations: int = 2000, seed: int = 1900, progress: bool = True):
    """Sample the posterior, print its summary beside the published one, write draws and a picture.

    Parameters
    ----------
    directory : path-like
        Where ``kmc-demo.nc`` and ``kmc-demo.png`` are written; it is created if necessary.
    max_evaluations : int
        Budget of simulations for all four chains together, warm-up included.
    seed : int
    progress : bool
        Show the progress display (on standard error).

    Returns
    -------
    InferenceData or DataTree
        With the eight parameters by name, and the populations and simulated counts at each draw.

    Raises
    ------
    ImportError
        Matplotlib is not installed (``pip install "kernelmc[plots]"``); raised before sampling.
    """
    import kmc
    from kmc.plots.style import require_matplotlib

    require_matplotlib()
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    chains = 4
    rng = np.random.default_rng(seed)
    idata = kmc.sample(
        lv.model(),
        initial=lv.initial(rng, 4 * chains),
        chains=chains,
        draws=None,
        max_evaluations=max_evaluations,
        seed=seed,
        progress=progress,
    )
    print(_summary(idata).to_string(float_format=_digits))
    print(f"\n{idata.attrs['n_evaluations']:,} simulations, warm-up included")
    for warning in json.loads(idata.attrs.get("warnings", "[]")):
        print(f"warning: {warning}")

    draws, picture = directory / "kmc-demo.nc", directory / "kmc-demo.png"
    idata.to_netcdf(str(draws), engine="h5netcdf")
    plot(idata, rng).savefig(picture, dpi=160)
    print(f"draws   {draws}\npicture {picture}")
    return idata


def plot(idata, rng: np.random.Generator):
    """Plot the posterior in pairs, with the fitted populations in the empty corner.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What :func:`run` returns.
    rng : numpy.random.Generator
        Selects the draws for which the equations are solved.

    Returns
    -------
    matplotlib.figure.Figure
    """
    from matplotlib.figure import Figure

    from kmc.plots import plot_pairs

    figure = Figure(figsize=(11, 11))
    published = {name: mean for name, (mean, _) in lv.PUBLISHED.items()}
    plot_pairs(idata, lv.PARAMETERS, labels=LABELS, reference=published, figure=figure)
    x = _draws(idata)
    _plot_populations(figure, x[rng.choice(len(x), size=min(_CURVES, len(x)), replace=False)])
    return figure


def _draws(idata) -> np.ndarray:
    """Return all draws as logarithms, shape (n, 8)."""
    return np.log(
        np.column_stack([idata["posterior"][name].values.ravel() for name in lv.PARAMETERS])
    )


def _summary(idata):
    """Return ArviZ's summary with the published numbers beside it."""
    summary = import_arviz().summary(idata, round_to="none")
    published = {name: f"{mean:.2g} ({sd:.2g})" for name, (mean, sd) in lv.PUBLISHED.items()}
    summary.insert(2, "published mean (sd)", [published[name] for name in summary.index])
    return summary


def _digits(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _plot_populations(figure, x) -> None:
    """Plot both series of counts, with the posterior of the solution (dark) and a count (light)."""
    from kmc.plots.style import ACCENT, INK, SHADES

    years = np.linspace(lv.YEARS[0], lv.YEARS[-1], 161)
    solution = np.array([lv.predict(row, years) for row in x])
    # The distribution of a count is a mixture over the draws of log-normals, each represented by 20
    # of its quantiles.
    errors = np.sqrt(2) * erfinv(np.arange(-19, 20, 2) / 20)
    counts = solution[:, None] * np.exp(errors[:, None, None] * np.exp(x[:, None, None, 6:]))
    grid = figure.add_gridspec(2, 1, left=0.57, right=0.985, bottom=0.575, top=0.94, hspace=0.1)
    for i, species in enumerate(("hares", "lynx")):
        ax = figure.add_subplot(grid[i])
        count = np.nanquantile(counts[..., i], [0.05, 0.95], axis=(0, 1))
        low, median, high = np.nanquantile(solution[..., i], [0.05, 0.5, 0.95], axis=0)
        ax.fill_between(years, *count, color=SHADES[0], linewidth=0, label="a count, 90 %")
        ax.fill_between(
            years, low, high, color=SHADES[2], linewidth=0, label="the population, 90 %"
        )
        ax.plot(years, median, color=SHADES[4], linewidth=1.4, label="its median")
        ax.plot(
            lv.YEARS,
            lv.PELTS[:, i],
            "o",
            color=ACCENT,
            markersize=4.5,
            markeredgecolor="white",
            label="the data",
        )
        ax.set(
            xlim=(1899.6, 1920.4),
            ylim=(0, 1.12 * max(count[1].max(), lv.PELTS[:, i].max())),
            xticks=lv.YEARS[::5],
        )
        ax.set_ylabel(f"{species}, thousands of pelts", fontsize=9, color=INK)
        ax.tick_params(
            labelsize=8, length=2, width=0.5, color=INK, labelcolor=INK, labelbottom=i == 1
        )
        ax.spines[["top", "right"]].set_visible(False)
        ax.spines[["left", "bottom"]].set(linewidth=0.5, color=INK)
        if i == 0:
            _add_heading(ax)
    figure.text(
        0.985,
        0.5,
        "red lines: published means (Carpenter, 2018)",
        fontsize=8,
        color=ACCENT,
        ha="right",
    )


def _add_heading(ax) -> None:
    """Write the title and the legend above the upper of the two series."""
    from kmc.plots.style import INK

    ax.set_title(
        "Hudson's Bay Company pelts and the fitted equations",
        fontsize=11,
        color=INK,
        loc="left",
        pad=26,
    )
    ax.legend(
        fontsize=8,
        frameon=False,
        labelcolor=INK,
        ncols=4,
        columnspacing=1.4,
        handlelength=1.4,
        loc="lower left",
        bbox_to_anchor=(-0.015, 0.99),
    )
