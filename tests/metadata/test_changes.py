"""Changes of a key by compare-and-swap: decided anew, on what stands, after each conflict (rule M1)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from metadata import settled_writes
from metadata.errors import CONFLICTS_MAX, BadRecord, KeepsChanging, MetadataRestored, OutcomeUnknown
from metadata.healing import planned_moves
from metadata.healing.marks import Mark, Marks
from metadata.healing.planned_moves import Move, Moves
from metadata.memory_store import MemoryData
from metadata.records.ledger_record import BookieRef
from metadata.store import Versioned
from tests.support.faulty_store import FaultyStore

KEY = "counter"
LOST = OutcomeUnknown("the answer was lost")


class ContestedStore(FaultyStore):
    """After each of so many reads another client is faster than whoever read."""

    def __init__(self) -> None:
        self.data = MemoryData()
        super().__init__(self.data)
        self.contests = 0
        self.rival: Callable[[FaultyStore, Versioned | None], Awaitable[object]] = adds_ten

    async def get(self, key: str) -> Versioned | None:
        found = await super().get(key)
        if self.contests:
            self.contests -= 1
            await self.rival(FaultyStore(self.data), found)
        return found


@pytest.fixture
def store() -> ContestedStore:
    return ContestedStore()


async def adds_ten(store: FaultyStore, found: Versioned | None) -> None:
    if found is None:
        await store.create(KEY, b"10 another's")
    else:
        await store.replace(KEY, b"%d another's" % (_decode(KEY, found.value) + 10), found.version)


async def deletes(store: FaultyStore, found: Versioned | None) -> None:
    if found is not None:
        await store.delete(KEY, found.version)


def _decode(key: str, value: bytes) -> int:
    number, nonce = value.split(b" ", 1)
    if not nonce:
        raise BadRecord(key, "it has no nonce")
    return int(number)


def _encode(number: int) -> bytes:
    return b"%d %s" % (number, settled_writes.new_nonce())


async def change(
    store: FaultyStore, step: Callable[[int | None], int | None]
) -> tuple[int | None, int | None]:
    return await settled_writes.change(store, KEY, step, _decode, _encode)


def one_more(number: int | None) -> int:
    return (number or 0) + 1


async def stands(store: ContestedStore) -> int | None:
    found = await FaultyStore(store.data).get(KEY)
    return None if found is None else _decode(KEY, found.value)


@pytest.mark.parametrize("before", [None, 1])
async def test_a_change_is_decided_anew_on_what_another_client_has_made_of_it(
    store: ContestedStore, before: int | None
) -> None:
    if before is not None:
        await store.create(KEY, _encode(before))
    store.contests = 3
    assert await change(store, one_more) == ((before or 0) + 30, (before or 0) + 31)
    assert await stands(store) == (before or 0) + 31


async def test_a_key_that_another_client_deletes_meanwhile_is_no_key_to_the_change(
    store: ContestedStore,
) -> None:
    await store.create(KEY, _encode(7))
    store.contests, store.rival = 1, deletes
    assert await change(store, one_more) == (None, 1)


@pytest.mark.parametrize("before", [None, 7])
async def test_where_nothing_is_to_change_nothing_is_written(
    store: ContestedStore, before: int | None
) -> None:
    if before is not None:
        await store.create(KEY, _encode(before))
    store.calls.clear()
    assert await change(store, lambda number: number) == (before, before)
    assert store.calls == {"get": 1}


async def test_a_change_that_is_refused_changes_nothing(store: ContestedStore) -> None:
    await store.create(KEY, _encode(7))

    def refused(number: int | None) -> int:
        raise ValueError(f"{number} is enough")

    with pytest.raises(ValueError, match="7 is enough"):
        await change(store, refused)
    assert await stands(store) == 7


async def test_what_cannot_be_read_is_not_changed(store: ContestedStore) -> None:
    await store.create(KEY, b"7 ")
    with pytest.raises(BadRecord):
        await change(store, one_more)
    await settled_writes.put(store, KEY, _encode(8))
    assert await stands(store) == 8, "put asks for nothing that was there"


async def test_a_change_to_nothing_deletes_the_key(store: ContestedStore) -> None:
    await store.create(KEY, _encode(7))
    store.contests = 2
    assert await change(store, lambda _: None) == (27, None)
    assert await stands(store) is None
    assert await settled_writes.delete(store, KEY) is False


@pytest.mark.parametrize("done", [[True], [False], [False, True]])
async def test_a_change_whose_answer_was_lost_is_made_exactly_once(
    store: ContestedStore, done: list[bool]
) -> None:
    await store.create(KEY, _encode(7))
    for one in done:
        store.fail(LOST, bad=1, done=one)
    assert await change(store, one_more) == (7, 8)
    assert await stands(store) == 8


async def test_a_change_is_held_back_where_the_key_is_there_that_bars_it(store: ContestedStore) -> None:
    await store.create("restored", b"")
    with pytest.raises(MetadataRestored):
        await settled_writes.change(store, KEY, one_more, _decode, _encode, unless="restored")
    assert await stands(store) is None


async def test_after_so_many_conflicts_that_it_is_a_fault_a_change_gives_up(store: ContestedStore) -> None:
    store.contests = 10**9
    with pytest.raises(
        KeepsChanging, match="'counter' keeps changing: other clients were faster 1000 times; try"
    ):
        await change(store, one_more)
    assert store.calls["create"] + store.calls["replace"] == CONFLICTS_MAX


async def test_moves_that_two_bookies_have_done_at_once_are_dropped_by_both(store: ContestedStore) -> None:
    mine, its = (
        Move(0, BookieRef("a", "i"), BookieRef("b", "i")),
        Move(9, BookieRef("a", "i"), BookieRef("c", "i")),
    )
    left = Move(20, BookieRef("a", "i"), BookieRef("b", "i"))
    await planned_moves.plan(store, Moves(7, (mine, its, left)))
    store.contests, store.rival = 1, lambda other, _: planned_moves.drop(other, 7, [its])
    await planned_moves.drop(store, 7, [mine])
    assert [one async for one in planned_moves.list_moves(store)] == [Moves(7, (left,))]
    await planned_moves.drop(store, 7, [left])
    assert [one async for one in planned_moves.list_moves(store)] == []


async def test_failures_of_two_workers_at_once_both_count(store: ContestedStore) -> None:
    marks = Marks(store)
    await marks.set(7, ["it lacks a copy"], now_ms=1)
    store.contests, store.rival = 1, lambda other, _: Marks(other).failed(7, "its disk is full")
    await marks.failed(7, "nobody answered")
    assert await marks.read(7) == Mark(7, 1, ("it lacks a copy",), 2, "nobody answered")


async def test_what_is_known_already_is_not_read_before_the_first_attempt(store: ContestedStore) -> None:
    version = await store.create(KEY, _encode(7))
    found = Versioned(KEY, b"7 x", version)
    store.calls.clear()

    async def attempt(known: Versioned | None) -> int:
        assert known is not None
        return await settled_writes.replace(store, KEY, b"8 x", known.version)

    assert await settled_writes.until_changed("it", found, attempt, lambda: store.get(KEY)) == version + 1
    assert store.calls == {"replace": 1}
