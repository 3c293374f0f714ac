"""What the index has lost is never denied: it knows how much it should hold of every ledger (R6)."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

from bookie.errors import IndexDamaged, IndexUnusable
from bookie.index.frame_locations import KEY, FrameLocation
from bookie.index.index import Index
from bookie.storage.bookie import Bookie
from bookie.wire.messages import EntryRange
from tests.bookie.bookies import append, bookie_on, entries, open_bookie, read, read_request
from tests.bookie.entries import entries_of, frame_of


def place(n: int, position: int | None = None) -> FrameLocation:
    return FrameLocation(n, 64 + n * 128 if position is None else position, n, 1, 128)


def checkpoint(index: Index) -> None:
    index.begin_checkpoint()
    index.commit_checkpoint(0, [])
    index.end_checkpoint()


@pytest.fixture
def index(tmp_path: Path) -> Index:
    made = Index(tmp_path)
    for ledger_id in (7, 8):
        for n in range(10):
            made.add(ledger_id, place(n))
    checkpoint(made)
    return made


def lose(index: Index, ledger_id: int, first_entry: int) -> None:
    """A row is gone, and nobody took it away."""
    with index._env.begin(write=True, db=index._places.db) as txn:
        cursor = txn.cursor()
        assert cursor.set_range(KEY.pack(ledger_id, 0, first_entry, 0))
        assert cursor.delete()


def test_an_index_knows_of_each_ledger_whether_it_has_lost_a_frame(index: Index) -> None:
    assert index.is_whole(7)
    assert index.is_whole(99), "a ledger it never had"
    lose(index, 7, 4)
    assert not index.is_whole(7)
    assert index.is_whole(8)


def test_whatever_is_done_to_a_ledger_it_stays_whole(index: Index) -> None:
    index.remove(7, place(3))
    index.add(7, place(3, 64_000))
    index.add(7, place(4))  # it is there already
    index.remove(7, place(77))  # it never was
    checkpoint(index)
    assert index.is_whole(7)
    index.drop([(7, place(5)), (7, place(5))])
    assert index.is_whole(7)
    index.forget([7])
    assert index.is_whole(7)
    index.add(7, place(1))
    checkpoint(index)
    assert index.is_whole(7)
    index.clear_usage([0])
    index.check_tables()


@pytest.mark.parametrize("table", ["ledgers", "sums", "usage"])
async def test_a_table_that_has_lost_or_changed_a_row_makes_the_index_unusable(
    tmp_path: Path, table: str
) -> None:
    """R1: with a ledger's row its fence would be gone."""
    async with bookie_on(tmp_path) as bookie:
        await append(bookie, frame_of(7, [0]), frame_of(8, [0]))
        await bookie.fence(8)
    for change in ("lost", "changed"):
        index = Index(tmp_path / "index")
        with index._env.begin(write=True, db=index._env.open_db(table.encode())) as txn:
            cursor = txn.cursor()
            assert cursor.last()
            before = bytes(cursor.key()), bytes(cursor.value())
            if change == "lost":
                cursor.delete()
            else:
                txn.put(before[0], bytes([before[1][0] ^ 4]) + before[1][1:])
        with pytest.raises(IndexDamaged, match="are missing or have changed"):
            index.check_tables()
        index.close()
        with pytest.raises(IndexUnusable, match="rebuild-index"):
            Index(tmp_path / "index")
        mend(tmp_path / "index", table, before)


def mend(path: Path, table: str, row: tuple[bytes, bytes]) -> None:
    with lmdb.open(str(path), max_dbs=5) as env, env.begin(write=True, db=env.open_db(table.encode())) as txn:
        txn.put(*row)


FULL, BROKEN = os.strerror(errno.ENOSPC), os.strerror(errno.EIO)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            lmdb.DiskError(FULL),
            IndexUnusable(f"the index cannot be written: {FULL}; free some space on its disk"),
        ),
        (lmdb.DiskError(BROKEN), IndexUnusable(f"the index cannot be written: {BROKEN}")),
        (lmdb.CorruptedError("no page"), IndexDamaged("a write failed: no page")),
    ],
)
def test_an_index_that_cannot_be_written_says_whether_it_is_damaged_or_its_disk_is_full(
    index: Index, error: Exception, said: Exception
) -> None:
    """B4: for want of space a bookie waits; a damaged index is to be made anew."""

    def rows() -> Iterator[tuple[int, bytes]]:
        yield 7, b"row"
        raise error

    index.begin_checkpoint()
    with pytest.raises(IndexUnusable) as raised:
        index.commit_checkpoint(500, rows())
    index.abandon_checkpoint()
    assert (type(raised.value), str(raised.value)) == (type(said), str(said))
    assert (index.checkpoint_position, index.ledger(7)) == (0, None)


async def with_a_lost_frame(directory: Path) -> Bookie:
    async with bookie_on(directory) as bookie:
        await append(bookie, *(frame_of(7, [n]) for n in range(6)), *(frame_of(8, [n]) for n in range(6)))
    index = Index(directory / "index")
    lose(index, 7, 2)
    index.close()
    return await open_bookie(directory)


async def test_what_an_index_has_lost_is_unreadable_and_not_absent(tmp_path: Path) -> None:
    bookie = await with_a_lost_frame(tmp_path)
    try:
        for _ in range(2):
            reply = await bookie.read(read_request(7, 0, 9))
            assert entries_of(reply.columns) == entries(7, [0, 1, 3, 4, 5])
            assert reply.damaged == (EntryRange(0, 9),)
        assert await read(bookie, 8, 0, 9) == entries(8, range(6))
        assert await read(bookie, 7, 3, 5) == entries(7, [3, 4, 5])
    finally:
        await bookie.close()
