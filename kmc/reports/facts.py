"""What a report says about a run, read from its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kmc.diagnostics.best import Point, best
from kmc.diagnostics.columns import Column, Variable, columns, labeled_posterior, posterior_of
from kmc.diagnostics.summary import summary
from kmc.run.warning_codes import sentences_of

FEWEST_DRAWS = 4  # per chain, for ArviZ's summary


@dataclass(frozen=True)
class Facts:
    """Draws by column, ArviZ's table of them, and the run's attributes."""

    attrs: Mapping[str, Any]
    chains: int
    draws: int  # per chain
    columns: list[Column]
    variables: Mapping[str, Variable]
    table: Any  # pandas.DataFrame with a row for each column; None for fewer than four draws
    best: Point | None  # the evaluated point of the highest log-density, if it is known

    @property
    def ess(self) -> np.ndarray:
        """Bulk effective sample size of each column; NaN for a constant one."""
        moved = [bool(np.ptp(self.values(column))) for column in self.columns]
        return np.where(moved, self.table["ess_bulk"].to_numpy(dtype=float), np.nan)

    @property
    def rhat(self) -> np.ndarray:
        """R-hat of each column; NaN for a constant one, or for one chain."""
        return self.table["r_hat"].to_numpy(dtype=float)

    @property
    def warnings(self) -> list[tuple[str, str]] | None:
        """Codes and sentences of the run's warnings; None if the result has no record of its checks."""
        if "warnings" not in self.attrs:
            return None
        sentences, codes = sentences_of(self.attrs), sentences_of(self.attrs, "warning_codes")
        return list(zip(codes if len(codes) == len(sentences) else [""] * len(sentences), sentences, strict=True))

    def values(self, column: Column) -> np.ndarray:
        """Draws of one column, (chains, draws)."""
        return self.variables[column.variable].values[(..., *column.place)]

    def slowest(self, most: int) -> list[int]:
        """Places of the columns with the fewest effective draws, the worst first."""
        return np.argsort(np.where(np.isnan(self.ess), -1.0, self.ess), kind="stable")[:most].tolist()


def facts_of(idata: Any, var_names: Sequence[str] | None = None) -> Facts:
    """Read a result.

    Raises
    ------
    TypeError, ValueError
        It has no posterior, or a name is neither a variable of the posterior nor an element of one.
    """
    variables = labeled_posterior(idata)
    chosen = columns(variables, var_names)
    chains, draws = variables[chosen[0].variable].values.shape[:2]
    attrs = getattr(idata, "attrs", {}) or posterior_of(idata).attrs
    table = None
    if draws >= FEWEST_DRAWS:
        table = summary(idata, var_names)
    highest = best(idata).evaluation if "best" in attrs and draws else None
    if highest is not None:
        shown = {column.variable for column in chosen}
        highest = highest._replace(parameters={k: v for k, v in highest.parameters.items() if k in shown})
    return Facts(attrs, chains, draws, chosen, variables, table, highest)
