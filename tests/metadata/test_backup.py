"""A backup has all of a cluster that the living do not say anew; restored, it is held back until it is accepted."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator

import pytest

from metadata import keys
from metadata.backup import hold, saving
from metadata.backup.backup_file import BackupWriter, Header, Item, read_items
from metadata.backup.backup_restore import check, put_rebuilt, restore
from metadata.backup.hold import HoldKind, Misfits
from metadata.backup.no_cluster import why_no_cluster
from metadata.errors import BackupUnusable, MetadataRestored, StoreRefused, StoreUnavailable
from metadata.memory_store import MemoryData, MemoryStore
from metadata.records import records_pb2 as pb
from metadata.records.ledger_record import BookieRef
from metadata.store import PAGE_KEYS_MAX, Page
from metadata.version import Version
from tests.support.faulty_store import FaultyStore
from tests.support.present import there

HEADER = Header("c1", 1234)
ALL = {
    keys.LAYOUT: b"layout",
    keys.NEXT_LEDGER_ID: b"next",
    keys.ledger(1): b"one",
    keys.ledger(2**63 - 1): b"\x00last",
    keys.cookie("b1"): b"cookie",
    keys.life("b1"): b"life",
    keys.order("b1"): b"order",
    keys.journal_state("j", "a"): b"state",
    keys.journal_segment("j", "a", 7): b"segment",
}


async def filled(store: MemoryStore, found: dict[str, bytes] = ALL) -> MemoryStore:
    for key, value in found.items():
        await store.create(key, value)
    return store


def backup(items: dict[str, bytes] = ALL) -> bytes:
    file = io.BytesIO()
    writer = BackupWriter(file, HEADER)
    for key, value in items.items():
        writer.add(Item(key, value))
    writer.end()
    return file.getvalue()


async def all_of(store: MemoryStore) -> dict[str, bytes]:
    found = {}
    for key in (*ALL, keys.RESTORED):
        item = await store.get(key)
        if item is not None:
            found[key] = item.value
    return found


def test_every_key_is_either_kept_or_said_anew_by_the_living() -> None:
    constants = {
        value
        for name, value in vars(keys).items()
        if name.isupper() and not name.startswith("_") and isinstance(value, str)
    }
    kept = {
        keys.LAYOUT,
        keys.NEXT_LEDGER_ID,
        keys.RETIRED_IDS,
        keys.LEDGERS,
        *saving.NAMING_LEDGERS,
        *saving.KEPT,
    }
    assert constants == kept | set(saving.NOT_KEPT)
    assert not kept & set(saving.NOT_KEPT)


async def test_what_is_saved_comes_back_as_it_was() -> None:
    many = {keys.ledger(n): b"%d" % n for n in range(2, PAGE_KEYS_MAX + 5)}
    store = await filled(MemoryStore(), ALL | many)
    await filled(store, {keys.bookie("b1"): b"lives", keys.AUDITOR: b"who", keys.absent("b2"): b"since"})
    file = io.BytesIO()
    writer = BackupWriter(file, HEADER)
    saved: list[int] = []
    assert await saving.save(store, writer, saved.append)
    end = file.tell()
    writer.end()
    read: list[int] = []
    assert check(file, read.append) == (HEADER, len(ALL) + len(many))
    assert (sum(saved), sum(read)) == (len(ALL) + len(many), end)
    other = MemoryStore()
    told: list[int] = []
    assert await restore(other, file, 99, told.append) == HEADER
    assert sum(told) == len(ALL) + len(many)
    assert {item.key: item.value async for item in listed(other)} == ALL | many
    restored = await hold.read(other)
    assert restored is not None and (restored.backup_ms, restored.restored_ms) == (1234, 99)


async def listed(store: MemoryStore) -> AsyncIterator[Item]:
    after: str | None = None
    while True:
        page = await store.list_page("", after=after)
        for item in page.items:
            if item.key != keys.RESTORED:
                yield Item(item.key, item.value)
        if page.next_after is None:
            return
        after = page.next_after


class ChangesBetween(MemoryStore):
    """A journal rolls while the ledgers are read."""

    async def list_page(self, prefix: str, *, after: str | None = None, limit: int = PAGE_KEYS_MAX) -> Page:
        page = await super().list_page(prefix, after=after, limit=limit)
        if prefix == keys.LEDGERS and await self.get(keys.journal_state("j", "b")) is None:
            await self.create(keys.journal_state("j", "b"), b"new")
        return page


async def test_journals_that_change_meanwhile_are_read_again_with_their_ledgers() -> None:
    store = await filled(ChangesBetween())
    assert not await saving.save(store, BackupWriter(io.BytesIO(), HEADER))
    assert await saving.save(store, BackupWriter(io.BytesIO(), HEADER))


async def test_the_counter_of_ids_is_read_behind_every_ledger() -> None:
    file = io.BytesIO()
    assert await saving.save(await filled(MemoryStore()), BackupWriter(file, HEADER))
    order = [json.loads(line).get("key", "") for line in file.getvalue().splitlines()]
    ledgers = [n for n, key in enumerate(order) if key.startswith(keys.LEDGERS)]
    assert order.index(keys.NEXT_LEDGER_ID) > max(ledgers)


def test_a_file_that_is_cut_off_or_changed_anywhere_is_refused() -> None:
    whole = backup()
    assert len(list(read_items(io.BytesIO(whole)))) == len(ALL)
    for end in range(len(whole) - 1):
        with pytest.raises(BackupUnusable):
            list(read_items(io.BytesIO(whole[:end])))
    for at in range(len(whole) - 1):
        damaged = bytearray(whole)
        damaged[at] ^= 1
        with pytest.raises(BackupUnusable):
            list(read_items(io.BytesIO(bytes(damaged))))
    with pytest.raises(BackupUnusable, match="continues after its end"):
        list(read_items(io.BytesIO(whole + whole)))


def test_a_file_of_something_else_or_of_a_newer_program_is_named() -> None:
    with pytest.raises(BackupUnusable, match="not a backup of bookledger"):
        check(io.BytesIO(b"{}\n"))
    with pytest.raises(BackupUnusable, match="is not JSON"):
        check(io.BytesIO(b"[" * 100_000 + b"\n"))
    with pytest.raises(BackupUnusable, match="not contain a cluster's layout"):
        check(io.BytesIO(backup({keys.ledger(1): b"one"})))
    newer = backup().replace(b'"format_version":1', b'"format_version":2')
    with pytest.raises(BackupUnusable, match="format version 2; this program supports 1"):
        check(io.BytesIO(newer))


async def test_it_is_restored_only_where_there_is_no_cluster() -> None:
    store = await filled(MemoryStore(), {keys.LAYOUT: b"another"})
    with pytest.raises(BackupUnusable, match="there is already a cluster here"):
        await restore(store, io.BytesIO(backup()), 1)
    assert await all_of(store) == {keys.LAYOUT: b"another"}
    store = await filled(MemoryStore(), {keys.ledger(1): b"another's"})
    with pytest.raises(BackupUnusable, match="already something here"):
        await restore(store, io.BytesIO(backup()), 1)
    assert await store.get(keys.LAYOUT) is None, "it is no cluster"
    await hold.begin(other := MemoryStore(), backup_ms=HEADER.created_ms + 1, now_ms=2)
    with pytest.raises(BackupUnusable, match="another backup was being restored here"):
        await restore(other, io.BytesIO(backup()), 3)
    begun = MemoryStore()
    await hold.begin(begun, backup_ms=HEADER.created_ms, now_ms=2)
    await begun.create(keys.ledger(1), b"another's")
    with pytest.raises(BackupUnusable, match="another value under"):
        await restore(begun, io.BytesIO(backup()), 3)


async def emptied() -> MemoryData:
    """With what bookies have noted that lived on, and have stopped since."""
    store = MemoryStore(data := MemoryData())
    await hold.begin(store, backup_ms=0, now_ms=2)
    notes = (keys.misfits("b1"), keys.NEXT_LEDGER_ID, keys.life("b1"), keys.AUDITOR)
    await filled(store, dict.fromkeys(notes, b"?"))
    return data


async def test_it_takes_the_place_of_metadata_that_was_lost_under_living_bookies() -> None:
    store = MemoryStore(await emptied())
    await restore(store, io.BytesIO(backup()), 3)
    restored = await hold.read(store)
    assert restored is not None and restored.backup_ms == HEADER.created_ms
    found = await all_of(store)
    assert found.keys() == {*ALL, keys.RESTORED}
    assert {key: found[key] for key in ALL} == ALL


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (keys.bookie("b1"), "stop all of them first"),
        (keys.journal_node("jn1"), "stop all of them first"),
        (keys.ledger(9), "already something here"),
        (keys.cookie("b9"), "already something here"),
        (f"{keys.RESTORED}-2/layout", "already something here"),
    ],
)
async def test_nothing_else_than_what_bookies_noted_makes_way_for_it(key: str, why: str) -> None:
    store = await filled(MemoryStore(await emptied()), {key: b"!"})
    before = await all_of(store)
    with pytest.raises(BackupUnusable, match=why):
        await restore(store, io.BytesIO(backup()), 3)
    assert await all_of(store) == before


async def test_a_restoring_over_notes_that_was_cut_off_anywhere_is_done_again() -> None:
    cut_off = 0
    for changes in range(100):
        store = FaultyStore(await emptied())
        store.fail(StoreRefused("it crashed"), good=changes)
        try:
            await restore(store, io.BytesIO(backup()), 3)
        except StoreRefused:
            cut_off += 1
            assert await store.get(keys.LAYOUT) is None, "it is no cluster"
            store.heal()
            await restore(store, io.BytesIO(backup()), 3)
        found = await all_of(store)
        assert found.keys() == {*ALL, keys.RESTORED}
    assert cut_off == 4 + 1 + len(ALL), "notes, the hold, keys"


async def test_a_bookie_that_woke_up_beside_a_restoring_hinders_none() -> None:
    """It had hung, and was not registered: it notes what it sees, and what it is."""

    class WokeUp(MemoryStore):
        has_woken = False

        async def delete(self, key: str, version: Version, *, unless: str | None = None) -> None:
            await super().delete(key, version, unless=unless)
            if not self.has_woken:
                self.has_woken = True
                found = there(await self.get(keys.RESTORED))
                await hold.begin_again(self, backup_ms=0, now_ms=9, version=found.version)

    store = WokeUp(await emptied())
    with pytest.raises(BackupUnusable, match="stop all of them first, and restore the backup again"):
        await restore(store, io.BytesIO(backup()), 3)
    await restore(store, io.BytesIO(backup()), 3)
    begun = MemoryStore()
    await hold.begin(begun, backup_ms=HEADER.created_ms, now_ms=2)
    registered = await begun.create(keys.bookie("b1"), b"!")
    with pytest.raises(BackupUnusable, match="stop all of them first"):
        await restore(begun, io.BytesIO(backup()), 3)
    await begun.delete(keys.bookie("b1"), registered)
    await begun.create(keys.life("b1"), b"newer")
    await restore(begun, io.BytesIO(backup({**ALL, keys.life("b1"): b"older"})), 3)
    assert (await all_of(begun))[keys.life("b1")] == b"newer"


MADE = {key: value for key, value in ALL.items() if not key.startswith((keys.LIVES, keys.ORDERS))}
"""What bookies can tell of a cluster."""


async def test_what_was_made_again_takes_its_place_beside_bookies_that_live() -> None:
    store = await filled(
        MemoryStore(await emptied()), {keys.bookie("b1"): b"alive", keys.journal_node("jn1"): b"!"}
    )
    await put_rebuilt(store, io.BytesIO(backup(MADE)), 3)
    rebuilt = await hold.read(store)
    assert rebuilt is not None and rebuilt.is_rebuilt and rebuilt.restored_ms == 3
    found = {item.key: item.value for item in (await store.list_page("")).items}
    del found[keys.RESTORED]
    alive = {keys.bookie("b1"): b"alive", keys.journal_node("jn1"): b"!", keys.life("b1"): b"?"}
    assert found == {**MADE, **alive}


async def test_one_that_was_cut_off_anywhere_is_made_again_from_the_beginning() -> None:
    cut_off = 0
    for changes in range(100):
        store = FaultyStore(await emptied())
        store.fail(StoreRefused("it crashed"), good=changes)
        try:
            await put_rebuilt(store, io.BytesIO(backup(MADE)), 3)
        except StoreRefused:
            cut_off += 1
            assert await store.get(keys.LAYOUT) is None, "it is no cluster"
            store.heal()
            fewer = {key: value for key, value in MADE.items() if key != keys.ledger(1)}
            await put_rebuilt(store, io.BytesIO(backup({**fewer, keys.cookie("b1"): b"another"})), 4)
            assert await store.get(keys.ledger(1)) is None, "what was known then does not stay"
    assert cut_off == 3 + 1 + len(MADE), "notes but for the bookie's own, the hold, keys"


async def test_nothing_is_made_again_where_there_is_a_cluster_or_half_a_backup_or_anything_else() -> None:
    for key, why in ((keys.LAYOUT, "there is a cluster here"), (keys.ledger(9), "already something here")):
        store = await filled(MemoryStore(await emptied()), {key: b"!"})
        with pytest.raises(BackupUnusable, match=why):
            await put_rebuilt(store, io.BytesIO(backup(MADE)), 3)
    await hold.begin(half := MemoryStore(), backup_ms=7, now_ms=2)
    with pytest.raises(BackupUnusable, match="a backup was being restored here"):
        await put_rebuilt(half, io.BytesIO(backup(MADE)), 3)
    made = FaultyStore(await emptied())
    made.fail(StoreRefused("it crashed"), good=6)
    with pytest.raises(StoreRefused):
        await put_rebuilt(made, io.BytesIO(backup(MADE)), 3)
    assert "bookledger metadata rebuild" in await why_no_cluster(made)


async def test_a_restoring_that_failed_is_no_cluster_and_is_done_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("metadata.settled_writes.SETTLE_SECONDS_MAX", 0.0)
    monkeypatch.setattr("metadata.settled_writes.create.__kwdefaults__", {"unless": None, "seconds_max": 0.0})
    store = FaultyStore()
    store.fail(StoreUnavailable("away"), good=5)
    with pytest.raises(StoreUnavailable):
        await restore(store, io.BytesIO(backup()), 1)
    assert await store.get(keys.LAYOUT) is None
    first = await hold.read(store)
    store.heal()
    await restore(store, io.BytesIO(backup()), 2)
    assert await hold.read(store) == first, "it is the same restoring"
    assert (await all_of(store)).keys() == {*ALL, keys.RESTORED}


async def test_who_noticed_is_recorded_and_a_record_of_an_older_program_tells_of_nobody() -> None:
    noticed = hold.Noticed("b3", "the metadata's revision", 41, 57)
    store = MemoryStore()
    await hold.begin(store, backup_ms=0, now_ms=2, noticed=noticed)
    await hold.begin(store, backup_ms=0, now_ms=3, noticed=hold.Noticed("b4", "another", 1, 2))
    held = await hold.read(store)
    assert held is not None and (held.restored_ms, held.noticed) == (2, noticed), "the first counts"
    older = pb.Restored(format_version=1, restored_ms=2, nonce=b"n").SerializeToString()
    await (other := MemoryStore()).create(keys.RESTORED, older)
    held = await hold.read(other)
    assert held is not None and (held.restored_ms, held.noticed) == (2, None)


async def test_it_is_held_back_until_it_is_accepted() -> None:
    store = MemoryStore()
    await hold.check_accepted(store)
    assert not await hold.accept(store)
    await restore(store, io.BytesIO(backup()), 5)
    with pytest.raises(MetadataRestored, match="bookledger metadata check"):
        await hold.check_accepted(store)
    restored = there(await hold.read(store))
    mine = Misfits(
        BookieRef("b1", "i1"),
        restored.nonce,
        HoldKind.of(range(500)),
        HoldKind.of([3]),
        cut_short=HoldKind.of([4, 7]),
    )
    await hold.publish_misfits(store, mine)
    await hold.publish_misfits(store, mine)
    others = Misfits(BookieRef("b2", "i2"), b"of another restoring")
    await hold.publish_misfits(store, others)
    assert await hold.read_misfits(store, restored) == {"b1": mine}
    assert (mine.unknown.ledgers, len(mine.unknown.first)) == (500, hold.LEDGERS_NAMED_MAX)
    assert not mine.fits and others.fits
    assert await hold.accept(store)
    await hold.check_accepted(store)
    assert await hold.read_misfits(store, restored) == {}
