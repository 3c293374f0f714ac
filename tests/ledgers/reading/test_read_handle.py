"""The ways to read a ledger agree: entries or columns, what is there already or what comes."""

from __future__ import annotations

from ledgers.reading.read_handle import ReadHandle
from tests.ledgers.reading.reading import DictionaryBookies, reader_of


async def ids_in_every_way(reader: ReadHandle) -> list[list[int]]:
    """By all calls that may be made without saying where to begin."""
    return [
        [entry.entry_id async for entry in reader.read()],
        [entry_id async for page in reader.pages() for entry_id in page.ids],
        [entry.entry_id async for entry in reader.tail()],
        [entry_id async for page in reader.tail_pages() for entry_id in page.ids],
    ]


async def test_who_does_not_say_where_to_begin_is_given_all_from_the_first_entry_on() -> None:
    reader, _ = await reader_of(DictionaryBookies([10] * 30))
    assert await ids_in_every_way(reader) == [list(range(30))] * 4
    empty, _ = await reader_of(DictionaryBookies([]))
    assert await ids_in_every_way(empty) == [[]] * 4
