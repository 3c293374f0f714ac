"""Taking a metadata URI apart. `urlsplit` knows one host only: newer Pythons refuse a list with [::1] in it."""

from __future__ import annotations

import re
from urllib.parse import SplitResult

_URI = re.compile(
    r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL
)
"""RFC 3986, appendix B."""


def split(uri: str) -> SplitResult:
    """Scheme, hosts, path, query and fragment; empty where there is none. What hosts there are is not looked at."""
    found = _URI.fullmatch(uri)
    assert found is not None  # it matches everything
    scheme, *rest = (part or "" for part in found.groups())
    return SplitResult(scheme.lower(), *rest)
