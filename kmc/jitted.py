"""A fitted function at one point, in jitted loops: value and gradient, for any kind of function.

numba cannot call methods of Python objects. So a fitted function is a NamedTuple of arrays and
numbers, its *state*, and each type of state registers two jitted functions. Loops call
:func:`value_and_gradient` and :func:`workspace`, which numba resolves by the state's type when it
compiles them: a new fit does not recompile, a new kind of function needs no change in the loops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.extending import overload

_VALUE_AND_GRADIENT: dict[type, Callable[..., Any]] = {}
_WORKSPACE: dict[type, Callable[..., Any]] = {}
_WALL: dict[type, Callable[..., Any]] = {}


def register(
    state: type, workspace: Callable[..., Any], value_and_gradient: Callable[..., Any]
) -> None:
    """Register a NamedTuple type for use in the loops.

    Parameters
    ----------
    state : type
        A NamedTuple class.
    workspace : jitted function
        ``workspace(state)`` returns scratch arrays.
    value_and_gradient : jitted function
        ``value_and_gradient(state, x, gradient, work)`` returns the value at x (d,), writes the
        gradient into ``gradient`` (d,), and allocates nothing.
    """
    _WORKSPACE[state] = workspace
    _VALUE_AND_GRADIENT[state] = value_and_gradient


def register_wall(state: type, wall: Callable[..., Any]) -> None:
    """Register a wall for a NamedTuple type; types without one have no wall.

    Parameters
    ----------
    state : type
        A NamedTuple class.
    wall : jitted function
        ``wall(state, x, normal, work)`` returns the term added to the value at x (d,), and whether
        x is behind the wall; if so, it writes a vector across the wall into ``normal`` (d,).
    """
    _WALL[state] = wall


def wall(state: Any, x: Any, normal: Any, work: Any) -> Any:
    """Return the term that the wall adds at x (d,), and whether x is behind it.

    If so, write a vector across the wall into ``normal`` (d,).
    """
    behind = _WALL.get(type(state))
    return (0.0, False) if behind is None else behind(state, x, normal, work)


def workspace(state: Any) -> Any:
    """Return scratch arrays for :func:`value_and_gradient`."""
    return _WORKSPACE[type(state)](state)


def value_and_gradient(state: Any, x: Any, gradient: Any, work: Any) -> Any:
    """Return the value at x (d,), and write the gradient into ``gradient`` (d,)."""
    return _VALUE_AND_GRADIENT[type(state)](state, x, gradient, work)


@overload(workspace)
def _workspace(state):
    jitted = _WORKSPACE.get(getattr(state, "instance_class", object))
    return None if jitted is None else lambda state: jitted(state)


@overload(value_and_gradient)
def _value_and_gradient(state, x, gradient, work):
    jitted = _VALUE_AND_GRADIENT.get(getattr(state, "instance_class", object))
    return (
        None
        if jitted is None
        else lambda state, x, gradient, work: jitted(state, x, gradient, work)
    )


@overload(wall)
def _wall(state, x, normal, work):
    jitted = _WALL.get(getattr(state, "instance_class", object))
    if jitted is None:
        return lambda state, x, normal, work: (0.0, False)
    return lambda state, x, normal, work: jitted(state, x, normal, work)
