"""Splits metadata URIs. `urlsplit` supports one host only: newer Pythons refuse a list with [::1] in it."""

from __future__ import annotations

import re
from urllib.parse import SplitResult

_URI = re.compile(
    r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL
)
"""RFC 3986, appendix B."""


def split(uri: str) -> SplitResult:
    """Splits a URI into scheme, hosts, path, query and fragment; "" for absent ones. Hosts are not checked."""
    found = _URI.fullmatch(uri)
    assert found is not None  # it matches everything
    scheme, *rest = (part or "" for part in found.groups())
    return SplitResult(scheme.lower(), *rest)
