"""The public names of a package: the names that it imports under `if TYPE_CHECKING`. Each is imported when first used.

This way each name is written only once, in a place where type checkers also find it.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable
from functools import cache
from importlib.util import resolve_name
from typing import Any


def lazily(
    package: str, require: Callable[[str, str], None] = lambda _home, _name: None
) -> Callable[[str], Any]:
    """Returns the `__getattr__` of a package, which also supports `__all__`. `require` is called before a name is
    imported from its module, and may raise ImportError."""

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
    """Returns the module of each public name of an imported package. Raises ImportError if its source is not
    installed."""
    spec = sys.modules[package].__spec__
    read = getattr(spec and spec.loader, "get_source", None)
    if spec is None or read is None or (source := read(package)) is None:
        raise ImportError(
            f"{package} is installed without its source, which lists its public names", name=package
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
