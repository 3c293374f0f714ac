"""File descriptors: as many as the system allows, and enough kept back for what a bookie needs to live."""

from __future__ import annotations

import resource

from ...errors import BookieError

DESCRIPTORS_KEPT = 192
"""For the log, segments that are read, the index, the metadata, and connections to other bookies."""

CONNECTIONS_MIN = 16
"""With room for fewer nobody would be served well."""

UNLIMITED = 1 << 30

DESCRIPTORS_A_TOOL = 2
"""More than its own: the two ends inside."""


def allow_most() -> int:
    """Raises this process's soft limit to the hard one, and returns it. Children inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return UNLIMITED if hard == resource.RLIM_INFINITY else hard


def connections_that_fit(descriptors: int, tools: int) -> int:
    """How many connections may be open where the process has so many descriptors. Raises BookieError for too few."""
    left = descriptors - DESCRIPTORS_KEPT - DESCRIPTORS_A_TOOL * tools
    if left < CONNECTIONS_MIN:
        least = DESCRIPTORS_KEPT + DESCRIPTORS_A_TOOL * tools + CONNECTIONS_MIN
        raise BookieError(
            f"this process may open {descriptors} files, a bookie needs {least} at least: raise the limit "
            f"(`ulimit -Hn`, or LimitNOFILE= in its unit)"
        )
    return left
