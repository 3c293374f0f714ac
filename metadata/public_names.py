"""The public names of a package: those that it imports under `if TYPE_CHECKING`, each imported when it is first used.

So a name is written once, where type checkers find it, too. What was renamed is still known by its former name.
"""

from __future__ import annotations

import ast
import importlib
import sys
import warnings
from collections.abc import Callable
from functools import cache, wraps
from importlib.util import resolve_name
from typing import Any, ParamSpec, TypeVar

NEW_NAMES = {"UnconfirmedError": "Unconfirmed"}
"""Public names by their former ones."""

P = ParamSpec("P")
R = TypeVar("R")


def lazily(
    package: str, require: Callable[[str, str], None] = lambda _home, _name: None
) -> Callable[[str], Any]:
    """Returns the `__getattr__` of a package, which knows `__all__`, too. Before a name is imported from its home,
    `require` may raise ImportError."""

    def get(name: str) -> Any:
        if name == "__all__":
            return list(homes_of(package))
        home = homes_of(package).get(name) if not name.startswith("__") else None
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        require(home, name)
        module = importlib.import_module(home)
        value = module if home == f"{package}.{name}" else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    return get


@cache
def homes_of(package: str) -> dict[str, str]:
    """The module of each public name of an imported package. Raises ImportError where its source is not installed."""
    spec = sys.modules[package].__spec__
    read = getattr(spec and spec.loader, "get_source", None)
    if spec is None or read is None or (source := read(package)) is None:
        raise ImportError(
            f"{package} is installed without its source, which has its public names", name=package
        )
    [block] = [node for node in ast.parse(source).body if isinstance(node, ast.If) and _is_for_checkers(node)]
    return {
        alias.name: resolve_name("." * one.level + (one.module or alias.name), spec.parent)
        for one in block.body
        if isinstance(one, ast.ImportFrom)
        for alias in one.names
        if alias.asname == alias.name
    }


def _is_for_checkers(node: ast.If) -> bool:
    return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def new_name(name: str) -> str:
    """What a name is called now, for `__getattr__` of a module; warns its caller of a former one."""
    if name not in NEW_NAMES:
        return name
    warnings.warn(f"{name} is called {NEW_NAMES[name]} now", DeprecationWarning, stacklevel=3)
    return NEW_NAMES[name]


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
