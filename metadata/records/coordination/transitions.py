"""Changes of a record by compare-and-swap: a transition is applied to what stands, again after each conflict."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from ...errors import NoSuchKey, VersionConflict

R = TypeVar("R")


async def change(
    transition: Callable[[R], R],
    standing: Callable[[], R],
    write: Callable[[R], Awaitable[object]],
    refresh: Callable[[], Awaitable[object]],
    attempts_max: int,
) -> R | None:
    """Does one change; returns the record that stands, None where each attempt met a change of somebody else.

    `standing`: the record as it is known; `write` replaces that one in the store, and adopts what it has become;
    `refresh` reads it again. Where one of them or the transition raises, nothing is tried again.
    """
    for _ in range(attempts_max):
        wanted = transition(standing())
        if wanted == standing():
            return wanted
        try:
            await write(wanted)
        except (VersionConflict, NoSuchKey):
            await refresh()
        else:
            return standing()
    return None
