"""File descriptor limits: raises the soft limit, and reserves what a bookie needs for itself."""

from __future__ import annotations

import resource

from ...errors import BookieError

DESCRIPTORS_KEPT = 192
"""Reserved for the log, segments that are read, the index, the metadata, and connections to other bookies."""

CONNECTIONS_MIN = 16
"""With fewer connections a bookie refuses to start."""

UNLIMITED = 1 << 30

DESCRIPTORS_A_TOOL = 2
"""Descriptors of a proxied gRPC connection besides its own: both ends of the inner one."""


def allow_most() -> int:
    """Raises this process's soft limit to the hard one, and returns it. Children inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return UNLIMITED if hard == resource.RLIM_INFINITY else hard


def connections_that_fit(descriptors: int, tools: int) -> int:
    """How many connections fit into so many descriptors. Raises BookieError for too few."""
    left = descriptors - DESCRIPTORS_KEPT - DESCRIPTORS_A_TOOL * tools
    if left < CONNECTIONS_MIN:
        least = DESCRIPTORS_KEPT + DESCRIPTORS_A_TOOL * tools + CONNECTIONS_MIN
        raise BookieError(
            f"this process may open {descriptors} files, a bookie needs {least} at least: raise the limit "
            f"(`ulimit -Hn`, or LimitNOFILE= in its unit)"
        )
    return left
