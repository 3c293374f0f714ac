"""What a bookie reports of metadata that was restored."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

from bookie.upkeep.healing.local_check import LocalCheck
from bookie.upkeep.healing.restore_check import RestoreCheck
from metadata import keys
from metadata.backup import hold
from metadata.backup.hold import HoldKind, Restored
from metadata.records import ledger_ids
from metadata.records.ledger_record import IDENTITY_BYTES, BookieRef, Fragment, LedgerRecord, Shape
from metadata.records.notes import fragment_note
from metadata.records.notes.fragment_note import FragmentNote
from metadata.version import Version
from tests.bookie.bookies import append
from tests.bookie.entries import frame_of
from tests.bookie.upkeep.healing.site import Healing
from tests.bookie.upkeep.replicas import ME as HERE
from tests.bookie.upkeep.replicas import closed_ledger
from tests.bookie.upkeep.test_collector import ME, OK, on_site
from tests.support.ledgers import change
from tests.support.present import there


async def test_ledgers_closed_before_an_entry_that_the_bookie_proves_to_be_confirmed_are_named(
    tmp_path: Path,
) -> None:
    async with on_site(tmp_path) as site:
        assert await append(site.bookie, frame_of(2, [3], lac=2), frame_of(3, [3], lac=2)) == [OK, OK]
        for ledger_id, last_entry in (2, 1), (3, 2):
            await change(site.ledgers, ledger_id, lambda it, end=last_entry: it.closed(end, 20))  # type: ignore[misc]
        check = RestoreCheck(site.bookie, site.store, ME, asyncio.Lock(), cast(LocalCheck, None))
        misfits = await check._compare(Restored(0, 1, b"nonce", Version(1)))
        assert misfits.cut_short == HoldKind.of([2])
        assert not misfits.fits


class NothingLacks:
    """Stands in for the local check: every record is right."""

    async def take_once(self) -> None:
        return


async def test_ids_that_only_this_bookie_knows_are_not_given_again_once_it_has_told_what_it_holds(
    tmp_path: Path,
) -> None:
    """Also where it hung while the store went back, and has seen nothing of that."""
    async with on_site(tmp_path) as site:
        assert await append(site.bookie, frame_of(977, [0])) == [OK]
        await hold.begin(site.store, backup_ms=0, now_ms=1)
        check = RestoreCheck(site.bookie, site.store, ME, asyncio.Lock(), cast(LocalCheck, NothingLacks()))
        layout = there(await site.store.get(keys.LAYOUT))
        await site.store.delete(keys.LAYOUT, layout.version)
        before = await site.store.list_page("")
        await check.look_once()
        assert await site.store.list_page("") == before, "a backup is being restored: nothing is compared yet"
        await site.store.create(keys.LAYOUT, layout.value)
        await check.look_once()
        restored = there(await hold.read(site.store))
        (told,) = (await hold.read_misfits(site.store, restored)).values()
        assert 977 in told.unknown.first
        assert await ledger_ids.counted_end(site.store) == 978


async def test_the_record_of_an_open_ledger_names_who_holds_more_of_it_and_is_not_in_its_last_ensemble(
    tmp_path: Path,
) -> None:
    """By what is noted of it; else by the entries of the last fragment."""
    async with on_site(tmp_path) as site:
        other, identity = BookieRef("other", "incarnation"), b"\7" * IDENTITY_BYTES
        fragments = {
            50: (Fragment(0, (other,)),),
            51: (Fragment(0, (ME,)), Fragment(2, (other,))),
            52: (Fragment(0, (ME,)),),
            53: (Fragment(0, (other,)),),
            54: (Fragment(0, (other,), number=2),),
            55: (Fragment(0, (other,), number=4),),
        }
        for ledger_id, placed in fragments.items():
            created = await site.ledgers.create(
                LedgerRecord(ledger_id, Shape(1, 1, 1), placed, identity=identity)
            )
            frame = frame_of(ledger_id, [0, 1])._replace(identity=identity)
            assert await append(site.bookie, frame) == [OK]
            if ledger_id > 53:
                note = FragmentNote.of(created.record, Fragment(0, (ME,), number=3))
                site.bookie.index.notes.add(ledger_id, fragment_note.encode(note))
            if ledger_id == 53:
                await site.ledgers.change(created.record.closed(1, 40), created.version)
        check = RestoreCheck(site.bookie, site.store, ME, asyncio.Lock(), cast(LocalCheck, None))
        for _ in range(2):
            await check._compare(Restored(0, 1, b"nonce", Version(1)))
            named = {one: await site.ledgers.read(one) for one in fragments}
            assert [one for one, found in named.items() if found and found.record.also_at == (ME,)] == [
                50,
                54,
            ]


async def test_a_ledger_lacks_only_what_is_not_here_whatever_its_record_says_it_may_lack(
    one: Healing,
) -> None:
    """W8: a record that was made again says of each copy that it may lack everything."""
    for ledger_id, here in (7, range(10)), (8, range(8)):
        await closed_ledger(one.ledgers, ledger_id, Shape(1, 1, 1), 9, Fragment(0, (HERE,)))
        await change(one.ledgers, ledger_id, lambda it: it.with_lacking(0, 0, 9))
        assert await append(one.world.bookie, frame_of(ledger_id, here)) == [OK]
    check = RestoreCheck(one.world.bookie, one.store, HERE, one.world.upkeep, one.stock)
    misfits = await check._compare(Restored(0, 1, b"nonce", Version(1)))
    assert misfits.lacking == HoldKind.of([8])
