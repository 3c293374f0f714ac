"""Iterators of the blocking client, closed and dropped half-way."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

import pytest

from ledgers.blocking.twin_calls import PagedIterator


def pages(ended: list[str]) -> Generator[list[int], None, None]:
    try:
        yield from ([1, 2, 3], [], [4, 5])
    finally:
        ended.append("ended")


def test_it_yields_the_items_of_all_pages_and_ends_their_source() -> None:
    ended: list[str] = []
    assert list(PagedIterator.over(pages(ended), reversed)) == [3, 2, 1, 5, 4]
    assert ended == ["ended"]


def test_closing_it_half_way_ends_its_source_and_it_yields_nothing_more() -> None:
    ended: list[str] = []
    with closing(PagedIterator.over(pages(ended), iter)) as items:
        assert next(items) == 1
        assert not ended
    assert ended == ["ended"]
    assert list(items) == []
    items.close()


def test_dropping_it_half_way_ends_its_source() -> None:
    ended: list[str] = []
    items = PagedIterator.over(pages(ended), iter)
    assert next(items) == 1
    del items
    assert ended == ["ended"]


def test_an_error_of_a_page_comes_after_the_items_before_it() -> None:
    def failing() -> Generator[list[int], None, None]:
        yield [1, 2]
        raise OSError("damaged")

    items = PagedIterator.over(failing(), iter)
    assert [next(items), next(items)] == [1, 2]
    with pytest.raises(OSError, match="damaged"):
        next(items)
