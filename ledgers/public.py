"""The public names of a package, imported when each is first used, and from our own packages only.

`metadata` and `spark` are names that a user's own script may well have. Python would import that script in place of
our package, and fail somewhere inside; so it is looked for first, and named.
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
"""Where all our packages stand beside each other."""


def lazily(
    package: str,
    public: Iterable[str],
    homes: Mapping[str, Iterable[str]],
    *,
    otherwise: str,
    needs: Mapping[str, str] | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for a package whose public names live in these modules, or else in `otherwise`.

    `needs` names the package from elsewhere that all names of a home need: where it is not installed, they are not
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


def leave_out_absent(public: list[str], homes: Mapping[str, Iterable[str]], needs: Mapping[str, str]) -> None:
    """Takes from `public`, which is what `import *` gives, the names that need what is not installed."""
    for home, needed in needs.items():
        if find_spec(needed) is None:
            for name in homes[home]:
                public.remove(name)


def _imported(home: str, name: str, needed: str | None) -> Any:
    if needed is not None and find_spec(needed) is None:
        raise ImportError(
            f"{name} needs {needed}, which is not installed: pip install 'bookledger[spark]'", name=needed
        )
    return importlib.import_module(home)


def require_our_own(*packages: str) -> None:
    """Raises ImportError where Python would import something else by the name of one of our packages."""
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
    except ValueError:  # a module of that name is imported, and says nothing of where it is from
        return None
