"""The HTML representation of a model in a notebook."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np


def as_html(model: Any) -> str:
    """A line on the log-density, and a table of its parameters if they have names."""
    function = escape(getattr(model.log_density, "__qualname__", None) or repr(model.log_density))
    traits = [name for name in ("vectorized", "noisy") if getattr(model, name)]
    head = ", ".join([f"{model.dim} unconstrained dimension{'s' if model.dim > 1 else ''}", *traits])
    line = f"<p><b>kmc.Model</b> <code>{function}</code>: {head}</p>"
    if not model.named:
        return line
    values = model.constrain(np.zeros((1, model.dim)))
    rows = "".join(_row(model, name, value.shape[1:]) for name, value in values.items())
    return f"{line}<table><tr><th>parameter</th><th>support</th><th>shape</th></tr>{rows}</table>"


def _row(model, name, shape):
    support = "" if model.parameters is None else repr(model.parameters[name])
    lengths = ", ".join(f"{dim}: {length}" for dim, length in zip(model.dims[name], shape))
    cells = "".join(f"<td>{escape(cell)}</td>" for cell in (name, support, lengths or "a number"))
    return f"<tr>{cells}</tr>"
