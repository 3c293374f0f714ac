"""Follows a ledger or log as it grows, despite outages, and optionally ends after a number of items."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Protocol, Self, TypeVar

from ledgers.errors import (
    DigestMismatch,
    EntryUnreadable,
    LedgerError,
    MetadataUnavailable,
    MetadataWentBack,
    NotEnoughAnswers,
)

from ..messages.outages import LOOK_SECONDS, PAUSE_SECONDS, Outages
from .printing import Printer


class ItemPage(Protocol):
    """Some items, in order."""

    def __len__(self) -> int: ...

    def cut(self, start: int, stop: int) -> Self: ...


P = TypeVar("P", bound=ItemPage)


def followed(
    tail: Callable[[int, float], Iterator[P]],
    probe: Callable[[], object],
    check_not_rolled_back: Callable[[str], object],
    has_ended: Callable[[], bool],
    printer: Printer[P],
    timeout: float | None,
    outages: Outages,
) -> Iterator[P]:
    """Yields pages, starting with the first item not yet printed; retries during outages of the metadata or of bookies.

    `tail` yields pages from a given item on, and ends if nothing new arrives within the timeout. `probe` raises if no
    bookie answers. `check_not_rolled_back` raises if the metadata was rolled back, in which case nothing may ever
    arrive; its argument is advice on how to continue.
    """
    news_at = time.monotonic()
    while True:
        left = math.inf if timeout is None else news_at + timeout - time.monotonic()
        try:
            for page in tail(printer.next, max(0, min(left, LOOK_SECONDS))):
                outages.is_over()
                yield page
                news_at = time.monotonic()
            if has_ended() or (timeout is not None and time.monotonic() >= news_at + timeout):
                return
            probe()  # tailing stays silent if no bookie answers
            outages.is_over()
            check_not_rolled_back(f"go on with --first {printer.next}")
        except MetadataWentBack as error:
            raise LedgerError(f"{error}; go on with --first {printer.next}") from error
        except (MetadataUnavailable, NotEnoughAnswers, EntryUnreadable) as error:
            if isinstance(error, DigestMismatch):
                raise
            outages.failed(str(error), f"go on with --first {printer.next}")
            time.sleep(PAUSE_SECONDS)


def at_most(count: int | None, pages: Iterator[P]) -> Iterator[P]:
    """Yields pages up to the given number of items, or all pages if `count` is None."""
    left = math.inf if count is None else count
    for page in pages:
        yield page if len(page) <= left else page.cut(0, int(left))
        left -= len(page)
        if left <= 0:
            return
