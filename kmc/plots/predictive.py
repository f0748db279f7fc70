"""Plot simulated data against observed data, and ranks against uniform ones.

The ranks are those of simulation-based calibration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kmc.diagnostics.calibration import uniformity
from kmc.diagnostics.draws import Variable, columns, labeled
from kmc.plots.style import ACCENT, INK, LINES, SHADES, axes_or_new, group, panels

_GROUPS = {
    "prior_predictive": ("prior", ("#ececec", "#dcdcdc")),
    "posterior_predictive": ("posterior", SHADES[1:3]),
}
_QUANTILES = 0.05, 0.25, 0.75, 0.95


def plot_predictive(idata: Any, observed: Any = None, *, x: Any = None) -> np.ndarray:
    """Plot prior and posterior predictive data, with the observed ones.

    Numbers are shown as histograms, arrays as bands that hold 50 % and 90 % of the simulated values
    at each place.

    Parameters
    ----------
    idata : InferenceData or DataTree
        A result of a model with a simulator, what :func:`kmc.predictive` returned, or anything with
        one of the groups ``posterior_predictive`` and ``prior_predictive``, such as a PyMC result.
    observed : array_like or mapping of str to array_like, optional
        Observed data by the variable's name, or those of the only variable; by default the group
        ``observed_data``.
    x : array_like, shape (n,), optional
        Where arrays (n, ...) are drawn; by default at the coordinates of their first dimension.

    Returns
    -------
    ndarray of Axes, shape (k,)
        One for each variable, and for each column of an array of two or more dimensions, in whose
        title are the column's labels. The vertical range is that of the posterior and the data,
        where there are any: a wide prior may extend beyond it.

    Raises
    ------
    ImportError
        Matplotlib is not installed (``pip install "kernelmc[plots]"``).
    TypeError, ValueError
        There are no simulated data, or observed ones do not match them.

    Examples
    --------
    >>> import kmc
    >>> model = kmc.Model(
    ...     lambda p: -0.5 * (p["mu"] - 1.0) ** 2, parameters={"mu": kmc.Normal(0, 10)}
    ... )
    >>> idata = kmc.sample(model, max_evaluations=500, draws=None, seed=1, progress=False)
    >>> found = kmc.predictive(idata, lambda p, rng: rng.normal(p["mu"], 1.0, size=3))
    >>> kmc.plot_predictive(found, observed=[0.8, 1.1, 1.3]).shape
    (1,)
    """
    drawn = {name: simulated for name in _GROUPS if (simulated := group(idata, name)) is not None}
    if not drawn:
        raise TypeError(
            f"idata={type(idata).__name__} has no group posterior_predictive or prior_predictive: "
            "expected what kmc.predictive returned"
        )
    variables = {
        each: {str(n): labeled(v) for n, v in drawn[each].data_vars.items()} for each in drawn
    }
    first = next(iter(variables.values()))
    data = _observed(
        observed, group(idata, "observed_data"), {n: v.values.shape[2:] for n, v in first.items()}
    )
    places = {name: columns({name: Variable(v.values, v.labels[1:])}) for name, v in first.items()}
    jobs = [column for own in places.values() for column in own]
    axes = panels(len(jobs))
    for ax, (title, name, place) in zip(axes, jobs, strict=True):
        own = {each: found[name].values for each, found in variables.items() if name in found}
        seen = data.get(name)
        if first[name].values.ndim == 2:
            _numbers(ax, own, seen)
        else:
            _bands(ax, own, seen, _where(x, first[name]), place)
            ax.set_xlabel("" if x is not None else _dimension(drawn, name), fontsize=9, color=INK)
        ax.set_title(title, fontsize=9, color=INK)
        ax.tick_params(labelsize=8)
    axes[0].legend(frameon=False, fontsize=8)
    return axes


def _dimension(drawn: Mapping[str, Any], name: str) -> str:
    """Return the name of a variable's first own dimension; "" if it is the default one."""
    dims = next(iter(drawn.values()))[name].dims
    own = next(str(one) for one in dims if one not in ("chain", "draw"))
    return "" if own == f"{name}_dim_0" else own


def _where(x: Any, variable: Variable) -> np.ndarray:
    where = np.asarray(variable.labels[0] if x is None else x)
    if where.shape != variable.values.shape[2:3]:
        raise ValueError(
            f"x has shape {where.shape}: expected {variable.values.shape[2:3]}, that of the "
            f"simulated data"
        )
    return where


def _observed(
    given: Any, stored: Any, shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, np.ndarray]:
    """Return observed data by name."""
    if given is None:
        given = (
            {}
            if stored is None
            else {name: v.values for name, v in stored.data_vars.items() if name in shapes}
        )
    elif not isinstance(given, Mapping):
        if len(shapes) > 1:
            raise TypeError(
                f"observed: there are several variables, {', '.join(shapes)}: pass a dict"
            )
        given = {next(iter(shapes)): given}
    data = {name: np.asarray(value, float) for name, value in given.items()}
    for name, value in data.items():
        if name not in shapes or value.shape != shapes[name]:
            listed = ", ".join(f"{each} of shape {shape}" for each, shape in shapes.items())
            raise ValueError(
                f"observed has {name!r} of shape {value.shape}: expected some of {listed}"
            )
    return data


def _numbers(ax: Any, own: Mapping[str, np.ndarray], seen: np.ndarray | None) -> None:
    narrow = np.concatenate([own[list(own)[-1]].ravel(), [] if seen is None else seen.ravel()])
    air = 0.5 * np.ptp(narrow) or 1.0
    limits = narrow.min() - air, narrow.max() + air
    for each, values in own.items():
        label, (_, color) = _GROUPS[each]
        counts, edges = np.histogram(values, bins=40, range=limits)
        ax.stairs(
            counts / (values.size * np.diff(edges)),
            edges,
            fill=True,
            color=color,
            alpha=0.7,
            label=label,
        )
    if seen is not None:
        ax.axvline(float(seen), color=ACCENT, linewidth=1.2, label="observed")


def _bands(
    ax: Any, own: Mapping[str, np.ndarray], seen: np.ndarray | None, x: np.ndarray, place: Any
) -> None:
    order = np.argsort(x) if x.dtype.kind in "biuf" else np.arange(len(x))
    shown = []
    for each, values in own.items():
        label, colors = _GROUPS[each]
        column = values.reshape(-1, *values.shape[2:])[(..., *place)][:, order]
        quantiles = np.quantile(column, _QUANTILES, axis=0)
        shown = [quantiles]  # of the last group, which is the posterior if there is one
        for k, color in enumerate(colors):
            ax.fill_between(
                x[order],
                quantiles[k],
                quantiles[-1 - k],
                color=color,
                linewidth=0,
                label=label if k else None,
            )
    if seen is not None:
        shown.append(seen[(..., *place)])
        ax.plot(x, shown[-1], ".", color=INK, markersize=4, label="observed")
    low, high = min(map(np.nanmin, shown)), max(map(np.nanmax, shown))
    air = 0.08 * (high - low) or 1.0
    ax.set_ylim(low - air, high + air)


def plot_calibration(
    found: Any, var_names: Sequence[str] | None = None, *, prob: float = 0.95
) -> np.ndarray:
    """Plot how the distribution function of the ranks differs from the uniform one.

    There is a panel for each quantity. If all is right, the whole line is within the band with
    probability `prob`; a line that is not is red. A line that is first above and then below zero
    tells of draws that are too narrow, the reverse of draws that are too wide. A line above zero
    throughout tells of draws that are too high, and one below zero of draws that are too low.

    Parameters
    ----------
    found : InferenceData or DataTree
        From :func:`kmc.simulation_based_calibration`, or any with numbers in (0, 1) in a group
        ``prior_sbc``.
    var_names : sequence of str, optional
        Variables, or elements of them, ``"slope[A]"``; all of them by default.
    prob : float
        Probability of the band, for each panel by itself.

    Returns
    -------
    ndarray of Axes, shape (k,)

    Raises
    ------
    ImportError
        Matplotlib is not installed (``pip install "kernelmc[plots]"``).
    TypeError, ValueError
        There are no such ranks, or no variable of that name.
    """
    ranks = group(found, "prior_sbc")
    if ranks is None:
        raise TypeError(
            f"found={type(found).__name__}: expected what kmc.simulation_based_calibration returned"
        )
    if not 0.0 < prob < 1.0:
        raise ValueError(f"prob={prob!r}: expected a number between 0 and 1")
    variables = {str(name): labeled(variable) for name, variable in ranks.data_vars.items()}
    chosen = columns(variables, var_names)
    axes = panels(len(chosen))
    for ax, column in zip(axes, chosen, strict=True):
        u = np.sort(variables[column.variable].values[(..., *column.place)].ravel())
        p_value, (z, low, high) = uniformity(u, prob)
        below = np.searchsorted(u, z, side="right") / len(u)
        outside = np.any((below < low) | (below > high))
        ax.fill_between(z, low - z, high - z, color=SHADES[0], linewidth=0)
        ax.axhline(0.0, color=INK, linewidth=0.5)
        ax.plot(z, below - z, color=ACCENT if outside else LINES[0], linewidth=1.2)
        ax.set_title(f"{column.name}, p = {p_value:.2g}", fontsize=9, color=INK)
        ax.tick_params(labelsize=8)
        ax.set_xlim(0.0, 1.0)
    axes[0].set_xlabel("normalized rank", fontsize=9, color=INK)
    axes[0].set_ylabel("ECDF minus uniform", fontsize=9, color=INK)
    return axes


def plot_validation(
    estimator: Any, *, kernel: str | None = None, base: str | None = None, ax: Any = None
) -> Any:
    """Plot the held-out objective over bandwidth and regularization, and mark the chosen setting.

    As figure 3b of Sutherland, Strathmann, Arbel and Gretton (2018), "Efficient and principled
    score estimation with Nyström kernel exponential families".

    Parameters
    ----------
    estimator : fitted estimator of :mod:`kmc.scores`
        With ``cv_results_``: fitted with ``regularization="cv"``, ``bandwidth="cv"``, or sequences.
    kernel, base : str, optional
        Which of several candidates, as in the table; by default those of the best row. If there are
        several penalties, that of the best row is shown.
    ax : matplotlib Axes, optional

    Returns
    -------
    Axes

    Raises
    ------
    ImportError
        Matplotlib is not installed (``pip install "kernelmc[plots]"``).
    ValueError
        The estimator had nothing to choose, or no such candidate.
    """
    table = getattr(estimator, "cv_results_", None)
    if not table:
        raise ValueError(
            'the estimator has no cv_results_: fit it with regularization="cv" or bandwidth="cv"'
        )
    objective = np.where(np.isfinite(table["objective"]), table["objective"], np.inf)
    best = int(np.argmin(objective))
    rows = np.full(len(objective), True)
    for name, wanted in (("kernel", kernel), ("base", base), ("penalty", None)):
        value = table[name][best] if wanted is None else wanted
        if value not in table[name]:
            raise ValueError(
                f"{name}={value!r}: expected one of {sorted(set(table[name].tolist()))}"
            )
        rows &= table[name] == value
    ax = axes_or_new(ax)
    bandwidth, regularization, values = (
        table[k][rows] for k in ("bandwidth", "regularization", "objective")
    )
    if len(np.unique(bandwidth)) > 1 and len(np.unique(regularization)) > 1:
        _surface(ax, bandwidth, regularization, values)
    else:
        along, label = (
            (bandwidth, "bandwidth") if len(np.unique(bandwidth)) > 1 else (regularization, "λ")
        )
        order = np.argsort(along)
        ax.errorbar(
            along[order],
            values[order],
            table["std_error"][rows][order],
            color=ACCENT,
            marker="o",
            capsize=2,
        )
        ax.set(
            xscale="log" if along.min() > 0 else "symlog", xlabel=label, ylabel="held-out objective"
        )
    return ax


def _surface(ax, bandwidth, regularization, values):
    columns, column = np.unique(bandwidth, return_inverse=True)
    rows, row = np.unique(regularization, return_inverse=True)
    surface = np.full((len(rows), len(columns)), np.nan)
    surface[row, column] = values
    finite = surface[np.isfinite(surface)]
    top = np.quantile(finite, 0.75)  # the worst settings are orders of magnitude higher
    image = ax.pcolormesh(surface, cmap="viridis_r", vmin=finite.min(), vmax=top)
    ax.figure.colorbar(image, ax=ax, label="held-out objective", extend="max")
    i, j = np.unravel_index(np.nanargmin(surface), surface.shape)
    ax.plot(j + 0.5, i + 0.5, marker="*", markersize=14, color=ACCENT, markeredgecolor="white")
    ax.set_xticks(np.arange(len(columns)) + 0.5, [f"{b:.2g}" for b in columns])
    ax.set_yticks(np.arange(len(rows)) + 0.5, [f"{r:.1g}" for r in rows])
    ax.set(xlabel="bandwidth", ylabel="λ")
