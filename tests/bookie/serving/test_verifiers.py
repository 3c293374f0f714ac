"""Looking up who may write to ledgers that a bookie has not seen yet, and whether the metadata has a fragment."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bookie.serving.lookups import verifiers
from bookie.serving.lookups.verifiers import LOOKUPS_AT_ONCE_MAX, Verifiers
from bookie.wire.messages import Frame, Status
from bookledger.errors import LedgerFenced
from metadata import keys
from metadata.errors import StoreUnavailable
from metadata.records.ledger_record import LedgerRecord
from metadata.records.ledger_store import LedgerStore, VersionedRecord
from metadata.records.notes import fragment_note
from metadata.store import MetadataStore
from tests.support.in_process import on_bookies


class CountedLedgers(LedgerStore):
    """Counts how many look-ups are under way together."""

    def __init__(self, store: MetadataStore) -> None:
        super().__init__(store)
        self.under_way = self.most = self.asked = 0
        self.is_away = False

    async def read(self, ledger_id: int) -> VersionedRecord | None:
        if self.is_away:
            raise StoreUnavailable("away")
        self.asked += 1
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.sleep(0)
            return await super().read(ledger_id)
        finally:
            self.under_way -= 1


async def test_many_new_ledgers_are_looked_up_together_so_many_at_a_time_and_each_has_its_own_answer(
    tmp_path: Path,
) -> None:
    async with on_bookies(tmp_path, 1) as (cluster, client):
        writer = await client.create_ledger(ensemble_size=1, write_quorum=1, ack_quorum=1, password=b"secret")
        (running,) = cluster.running.values()
        ledgers = CountedLedgers(cluster.store)
        asked = [writer.ledger_id, *range(5000, 5000 + 3 * LOOKUPS_AT_ONCE_MAX)]
        refused = await Verifiers(running.bookie, ledgers).refused(map(Frame, asked))
        assert set(refused) == set(asked[1:])
        assert {status for status, _ in refused.values()} == {Status.UNAUTHORIZED}
        assert running.bookie.verifier_of(writer.ledger_id) is not None
        assert ledgers.most == verifiers.LOOKUPS_AT_ONCE_MAX
        assert ledgers.asked == len(asked)
        await writer.abandon()


async def test_a_bookie_asks_the_metadata_once_for_a_fragment_that_it_hears_of_first(
    tmp_path: Path,
) -> None:
    """A fragment that does not stand there is refused, whether the ledger is known or not; who knows the ledger takes
    what is said of it while the metadata is away."""
    async with on_bookies(tmp_path, 1) as (cluster, client):
        writer = await client.create_ledger(ensemble_size=1, write_quorum=1, ack_quorum=1)
        (running,) = cluster.running.values()
        record, ledgers = writer.record, CountedLedgers(cluster.store)
        lookups = Verifiers(running.bookie, ledgers)
        stands, lost = (_frame(record, number) for number in (1, 2))
        assert (await lookups.refused([lost]))[writer.ledger_id][0] is Status.FENCED
        assert not lookups.knows(stands)
        assert await lookups.refused([stands]) == {}
        await writer.append(b"noted")
        asked = ledgers.asked
        assert lookups.knows(stands) and await lookups.refused([stands]) == {}
        assert ledgers.asked == asked == 2
        assert not lookups.knows(lost)
        assert (await lookups.refused([lost]))[writer.ledger_id][0] is Status.FENCED
        ledgers.is_away = True
        assert await lookups.refused([lost]) == {}
        await writer.close()


async def test_a_fragment_that_is_looked_up_while_notes_are_asked_for_is_looked_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its note is not among them, and an older copy of the metadata may be accepted by them."""
    async with on_bookies(tmp_path, 1) as (cluster, client):
        writer = await client.create_ledger(ensemble_size=1, write_quorum=1, ack_quorum=1)
        (running,) = cluster.running.values()
        ledgers, older = CountedLedgers(cluster.store), writer.record
        lookups = Verifiers(running.bookie, ledgers)
        newer = replace(older, fragments=(replace(older.fragments[0], number=2),))

        async def read(ledger_id: int) -> VersionedRecord:
            found = await CountedLedgers.read(ledgers, ledger_id)
            assert found is not None
            if ledgers.asked > 1:
                return found
            lookups.look_again()
            return replace(found, record=newer)

        monkeypatch.setattr(ledgers, "read", read)
        assert (await lookups.refused([_frame(older, 2)]))[writer.ledger_id][0] is Status.FENCED
        assert ledgers.asked == 2
        await writer.close()


def _frame(record: LedgerRecord, number: int) -> Frame:
    """The first one of a writer that knows the ledger's only fragment by this number."""
    fragment = replace(record.fragments[0], number=number)
    note = fragment_note.encode_of(record, fragment)
    return Frame(record.ledger_id, identity=record.identity, note=note)


async def test_with_a_bookie_whose_place_the_metadata_has_lost_nothing_is_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older copy is put back, and accepted, between a writer's ensemble change and its first frame to the new
    bookie, of which nobody else has heard. A recovery would not ask that one."""
    async with on_bookies(tmp_path, 3) as (cluster, client):
        writer = await client.create_ledger(ensemble_size=2, write_quorum=2, ack_quorum=2)
        key = keys.ledger(writer.ledger_id)
        older, change = await cluster.store.get(key), LedgerStore.change
        assert older is not None

        async def changed_and_lost(self: LedgerStore, *args: Any, **more: Any) -> VersionedRecord:
            stands = await change(self, *args, **more)
            await cluster.store.replace(key, older.value, stands.version)
            return stands

        with monkeypatch.context() as patch:
            patch.setattr(LedgerStore, "change", changed_and_lost)
            await cluster.stop(writer.record.fragments[0].ensemble[1].bookie_id)
            with pytest.raises(LedgerFenced, match="older copy, does not contain this fragment"):
                await writer.append(b"on two of three")
        assert writer.last_add_confirmed == -1
        reader = await client.open_ledger(writer.ledger_id, recovery=False)
        assert reader.last_add_confirmed == -1
