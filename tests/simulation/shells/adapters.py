"""Where runs reach into the product's client: what it has confirmed, faults of its own, the order of its sets."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from ledgers.bookies.append_stream import AppendStream
from ledgers.writing.write_handle import WriteHandle

from .site import Site


def writer_of(handle: Any) -> WriteHandle:
    """The plain writer behind an advanced one."""
    writer: WriteHandle = getattr(handle, "_writer", handle)
    return writer


def call_on_progress(writer: WriteHandle, then: Callable[[], None]) -> None:
    """`then` is called whenever the writer has confirmed something or has ended, before anybody else hears."""
    before = writer.on_progress

    def both() -> None:
        then()
        before()

    writer.on_progress = both


def telling_faults(site: Site) -> Callable[[AppendStream, str], None]:
    """A stream that meets a fault of its own breaks, like one whose bookie fails; here that is a problem."""
    break_stream = AppendStream._break

    def telling(self: AppendStream, why: str) -> None:
        if why.startswith("its stream failed"):
            site.loop.problems.append(why)
        break_stream(self, why)

    return telling


@contextmanager
def in_order(product_class: type) -> Iterator[None]:
    """Sets of these iterate in the order in which they were first put into one, not by address."""
    numbers = itertools.count(1)

    def serial(self: Any) -> int:
        found: int | None = self.__dict__.get("_serial_in_sets")
        if found is None:
            found = self.__dict__["_serial_in_sets"] = next(numbers)
        return found

    with mock.patch.object(product_class, "__hash__", serial):
        yield
