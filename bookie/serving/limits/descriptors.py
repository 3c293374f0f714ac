"""File descriptor limits: raises the soft limit, and reserves the descriptors that the bookie itself needs."""

from __future__ import annotations

import resource

from ...errors import BookieError

DESCRIPTORS_KEPT = 192
"""Descriptors reserved for the log, open segments, the index, the metadata, and connections to other bookies."""

CONNECTIONS_MIN = 16
"""A bookie refuses to start if it can have fewer connections than this."""

UNLIMITED = 1 << 30

DESCRIPTORS_A_TOOL = 2
"""Additional descriptors needed by a proxied gRPC connection: both ends of the inner connection."""


def allow_most() -> int:
    """Raises this process's soft limit on file descriptors to the hard limit, and returns it. Child processes inherit
    it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return UNLIMITED if hard == resource.RLIM_INFINITY else hard


def connections_that_fit(descriptors: int, tools: int) -> int:
    """Returns how many connections this number of descriptors allows. Raises BookieError if there are too few."""
    left = descriptors - DESCRIPTORS_KEPT - DESCRIPTORS_A_TOOL * tools
    if left < CONNECTIONS_MIN:
        least = DESCRIPTORS_KEPT + DESCRIPTORS_A_TOOL * tools + CONNECTIONS_MIN
        raise BookieError(
            f"this process may open {descriptors} files, but a bookie needs at least {least}: raise the limit "
            f"(`ulimit -Hn`, or LimitNOFILE= in its unit)"
        )
    return left
