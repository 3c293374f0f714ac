"""Lazily imports a package's public names, and only from our own packages.

A user's own script may well be called `metadata` or `spark`. Python would import it in place of our package, and fail
somewhere inside the script. This module checks for such a script first, and names it in the error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from typing import Any

HOME = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
"""The directory that holds all our packages."""


NEEDED = {"spark": "pyspark"}
"""Our packages that need an optional third-party package, each with the name of that package."""


def lazily(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns `__getattr__` and `__dir__` of a package that imports its public names under `if TYPE_CHECKING`.

    If one of our packages needs a package that is not installed, the names from our package are neither listed nor in
    `__all__`; importing such a name raises an error that names the missing package.
    """
    require_our_own("metadata")
    from metadata.public_names import homes_of, lazily

    imported = lazily(package, _require)

    def get(name: str) -> Any:
        return _installed(homes_of(package)) if name == "__all__" else imported(name)

    def listed() -> list[str]:
        special = [name for name in vars(sys.modules[package]) if name.startswith("__")]
        return sorted({*special, *_installed(homes_of(package))})

    return get, listed


def _installed(homes: Mapping[str, str]) -> list[str]:
    """Returns the names that can be imported in this installation."""
    absent = {ours for ours, needed in NEEDED.items() if find_spec(needed) is None}
    return [name for name, home in homes.items() if home.partition(".")[0] not in absent]


def _require(home: str, name: str) -> None:
    ours = home.partition(".")[0]
    require_our_own(ours)
    needed = NEEDED.get(ours)
    if needed is not None and find_spec(needed) is None:
        raise ImportError(
            f"{name} needs {needed}, which is not installed: pip install 'bookledger[{ours}]'", name=needed
        )


def require_our_own(*packages: str) -> None:
    """Raises ImportError if Python would import something else under the name of one of our packages."""
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
    except ValueError:  # a module of that name is already imported, and does not reveal its origin
        return None
