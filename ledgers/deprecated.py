"""What has another name now: it still works by the former one, with a DeprecationWarning that says the new one."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def renamed(**names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Has a function take keywords by their former names, too: `@renamed(start="first_entry")`."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            for old in names.keys() & kwargs.keys():
                new, said = names[old], f"{function.__qualname__}: the argument {old} is called"
                if new in kwargs:
                    raise TypeError(f"{said} {names[old]} now, and was given by both names")
                warnings.warn(f"{said} {names[old]} now", DeprecationWarning, stacklevel=2)
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return decorate
