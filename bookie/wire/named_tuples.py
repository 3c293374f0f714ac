"""Makes named tuples without calling a Python function, because such calls account for most of the cost of a single
append."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T", bound=tuple[Any, ...])


def made_of(kind: type[T]) -> Callable[[tuple[Any, ...]], T]:
    """Returns a function that turns a tuple of all fields, in order, into the named tuple. Annotate the variable to
    which the function is assigned."""
    return partial(tuple.__new__, kind)
