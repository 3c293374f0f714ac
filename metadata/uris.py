"""Splits metadata URIs. `urlsplit` supports only one host: recent Python versions reject a list that contains [::1]."""

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
    assert found is not None  # the pattern matches any string
    scheme, *rest = (part or "" for part in found.groups())
    return SplitResult(scheme.lower(), *rest)
