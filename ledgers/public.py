"""Lazy imports of a package's public names, from our own packages only.

A user's own script may well be called `metadata` or `spark`. Python would import it in place of our package,
and fail somewhere inside; so this looks for it first, and names it.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from typing import Any

HOME = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
"""The directory that holds all our packages."""


def lazily(
    package: str,
    public: Iterable[str],
    homes: Mapping[str, Iterable[str]],
    *,
    otherwise: str,
    needs: Mapping[str, str] | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns `__getattr__` and `__dir__` of a package whose public names live in `homes`, or else in `otherwise`.

    `needs` names the third-party package that a home requires: while it is not installed, that home's names are not
    listed, and importing one of them says what is missing.
    """
    home_of = {name: home for home, names in homes.items() for name in names}
    home_of = {name: home_of.get(name, otherwise) for name in public}
    needed = needs or {}

    def get(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = home_of[name]
        require_our_own(home.partition(".")[0])
        value = getattr(_imported(home, name, needed.get(home)), name)
        setattr(sys.modules[package], name, value)
        return value

    def listed() -> list[str]:
        absent = {home for home, needs in needed.items() if find_spec(needs) is None}
        return sorted(
            {*vars(sys.modules[package]), *(n for n, home in home_of.items() if home not in absent)}
        )

    return get, listed


def _imported(home: str, name: str, needed: str | None) -> Any:
    if needed is not None and find_spec(needed) is None:
        raise ImportError(
            f"{name} needs {needed}, which is not installed: pip install 'bookledger[spark]'", name=needed
        )
    return importlib.import_module(home)


def require_our_own(*packages: str) -> None:
    """Raises ImportError where Python would import something else under the name of one of our packages."""
    for package in packages:
        spec = _spec(package)
        places = list(spec.submodule_search_locations or ()) if spec else []
        if not any(os.path.dirname(os.path.realpath(place)) == HOME for place in places):
            found = (spec.origin if spec else None) or "another module"
            raise ImportError(
                f"{found} is imported in place of bookledger's own package {package!r}: "
                "rename it, or start the program in another directory",
                name=package,
            )


def _spec(package: str) -> ModuleSpec | None:
    try:
        return find_spec(package)
    except ValueError:  # an imported module of that name does not tell its origin
        return None
