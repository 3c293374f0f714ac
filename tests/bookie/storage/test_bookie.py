"""A bookie keeps and shows what was appended, ledger by ledger."""

from __future__ import annotations

from pathlib import Path

from bookie.storage.bookie import Bookie
from bookie.wire.columns import NO_ENTRIES
from bookie.wire.messages import EntryRange, LacReply, ReadReply, Status
from tests.bookie.bookies import (
    ALL_ENTRIES,
    append,
    bookie_on,
    entries,
    lac_request,
    open_bookie,
    read,
    read_request,
    submit,
)
from tests.bookie.entries import frame_of, lac_of

OK = Status.OK


async def test_what_was_appended_is_read(bookie: Bookie) -> None:
    assert await append(bookie, frame_of(7, range(3)), frame_of(7, [3], lac=2)) == [OK, OK]
    assert await read(bookie, 7) == entries(7, range(4))
    assert await read(bookie, 7, 1, 2) == entries(7, [1, 2])
    reply = await bookie.read(read_request(7, 3, 3))
    assert reply.last_add_confirmed == lac_of(2)


async def test_ledgers_do_not_see_each_other(bookie: Bookie) -> None:
    await append(bookie, frame_of(7, [0, 1]), frame_of(8, [1, 2]))
    assert (await read(bookie, 7), await read(bookie, 8)) == (entries(7, [0, 1]), entries(8, [1, 2]))


async def test_a_ledger_nobody_wrote_to_is_no_such_ledger(bookie: Bookie) -> None:
    assert await bookie.read(read_request(7)) == ReadReply(Status.NO_SUCH_LEDGER, NO_ENTRIES, ALL_ENTRIES)
    assert await bookie.last_add_confirmed(lac_request(7)) == LacReply(Status.NO_SUCH_LEDGER)


async def test_a_range_that_is_none_is_a_bad_request(bookie: Bookie) -> None:
    for ledger_id, first, last in ((7, 3, 2), (7, -1, 2), (-1, 0, 0)):
        reply = await bookie.read(read_request(ledger_id, first, last))
        assert reply.status is Status.BAD_REQUEST


async def test_R6_a_damaged_record_is_an_io_error_for_its_entries_and_no_others(
    tmp_path: Path, bookie: Bookie
) -> None:
    await append(bookie, frame_of(7, [0, 1]))
    await append(bookie, frame_of(7, [2]))
    path = tmp_path / "log" / "00000000.log"
    data = bytearray(path.read_bytes())
    data[64 + 90] ^= 1
    path.write_bytes(data)
    reply = await bookie.read(read_request(7, 0, 9))
    assert (reply.status, reply.columns.ids.tolist()) == (OK, [2])  # type: ignore[attr-defined]
    assert (reply.covered_through, reply.damaged) == (9, (EntryRange(0, 1),))


async def test_closing_finishes_what_was_accepted(tmp_path: Path) -> None:
    bookie = await open_bookie(tmp_path)
    answers = [submit(bookie, frame_of(7, [n])) for n in range(50)]
    await bookie.close()
    assert [answer.result() for answer in answers] == [(OK, "")] * 50
    async with bookie_on(tmp_path) as bookie:
        assert await read(bookie, 7) == entries(7, range(50))


async def test_counters_tell_what_was_added_since_the_start(tmp_path: Path) -> None:
    async with bookie_on(tmp_path) as bookie:
        await append(bookie, frame_of(7, range(3)), frame_of(7, [], lac=1))
        assert (bookie.metrics.counters.entries_added, bookie.metrics.counters.bytes_added) == (3, 60)
        assert bookie.syncs >= 1
    async with bookie_on(tmp_path) as bookie:
        counters = bookie.metrics.counters
        assert (counters.entries_added, counters.bytes_added, bookie.syncs) == (0, 0, 0)
