"""Makes named tuples without a call of Python: where an append is alone, such calls are most of what it costs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T", bound=tuple[Any, ...])


def made_of(kind: type[T]) -> Callable[[tuple[Any, ...]], T]:
    """A function from all fields, in order, to the named tuple. Annotate what it is assigned to with their types."""
    return partial(tuple.__new__, kind)
