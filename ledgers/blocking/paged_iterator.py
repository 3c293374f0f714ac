"""Closable iterators over items that arrive in pages."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from itertools import chain
from typing import TypeVar, cast

T = TypeVar("T")
Page = TypeVar("Page")


class PagedIterator(chain[T]):
    """Yields the items of pages. Python code runs once per page, not per item.

    `close` (or `contextlib.closing`) and dropping the last reference end it half-way, and free at once the resources it
    holds at bookies and in memory; neither waits for that.
    """

    _pages: Generator[object, None, None]

    @classmethod
    def over(
        cls, pages: Generator[Page, None, None], items_of: Callable[[Page], Iterable[T]]
    ) -> PagedIterator[T]:
        """Yields `items_of` each page."""
        items = cast("PagedIterator[T]", cls.from_iterable(map(items_of, pages)))
        items._pages = pages
        return items

    def close(self) -> None:
        """Ends the iteration. Safe to repeat. Raises ValueError while another thread waits in it."""
        self._pages.close()
        deque[T](maxlen=0).extend(self)  # releases the rest of its page
