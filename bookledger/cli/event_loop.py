"""Selects the event loop: asyncio's own, or uvloop, which uses a tenth less CPU."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import StrEnum
from importlib.util import find_spec

import click

Factory = Callable[[], asyncio.AbstractEventLoop]


class EventLoop(StrEnum):
    """`FASTEST` is uvloop if it is installed (the extra `fast`)."""

    FASTEST = "fastest"
    ASYNCIO = "asyncio"
    UVLOOP = "uvloop"


def factory_of(wanted: EventLoop) -> Factory:
    """Returns the loop factory for `asyncio.Runner`. Raises UsageError if uvloop is requested but not installed."""
    is_there = find_spec("uvloop") is not None
    if wanted is EventLoop.UVLOOP and not is_there:
        raise click.UsageError("uvloop is not installed: pip install 'bookledger[fast]'")
    if wanted is EventLoop.ASYNCIO or not is_there:
        return asyncio.new_event_loop
    import uvloop

    made: Factory = uvloop.new_event_loop
    return made
