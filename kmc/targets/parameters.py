"""Declarations of parameters: how large they are, and where they live."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from kmc.targets import transforms


class Parameter(ABC):
    """A parameter of a :class:`kmc.Model`.

    Attributes
    ----------
    shape : tuple of int or None
        Of the array of values, each of which may have a shape of its own; None: a single value, unless the model's
        `dims` say otherwise.
    """

    shape: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _as_shape(self.shape))

    @property
    @abstractmethod
    def transform(self) -> transforms.Transform:
        """The bijection from R^k onto the support of one value."""


@dataclass(frozen=True)
class Real(Parameter):
    """Real numbers.

    Parameters
    ----------
    shape : int or tuple of int, optional
        ``Real()`` is a number, ``Real(3)`` a vector of three, ``Real((2, 3))`` a matrix.
    """

    shape: Any = None

    @property
    def transform(self) -> transforms.Transform:
        return transforms.Identity()


def _as_shape(shape: Any) -> tuple[int, ...] | None:
    expected = f"shape={shape!r}: expected a whole number of at least 1, or a tuple of them"
    if shape is None:
        return None
    try:
        if isinstance(shape, (bool, np.bool_)):
            raise TypeError
        lengths = tuple(map(operator.index, shape)) if isinstance(shape, (tuple, list)) else (operator.index(shape),)
    except TypeError:
        raise TypeError(expected) from None
    if min(lengths, default=1) < 1:
        raise ValueError(expected)
    return lengths
