"""Ledgers of a journal that nothing refers to: which may be deleted, and which may be the last copy of edits."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from ledgers import NoSuchLedger
from ledgers.aio import LedgerClient
from metadata import keys
from qjm_compat.acceptor.acceptor_ledgers import ACCEPTOR_OF_LEDGER, JOURNAL_OF_LEDGER, SEGMENT_OF_LEDGER
from qjm_compat.batch import Batch, entries_of
from qjm_compat.transfer.checking.fsck import check_journal
from qjm_compat.transfer.checking.journal_findings import JournalFindings
from qjm_compat.transfer.checking.orphans import ORPHAN_AGE_SECONDS, Deleted, delete_orphans
from qjm_compat.transfer.errors import TransferRefused
from qjm_compat.transfer.inspection.inspector import JournalInspector
from tests.qjm_compat.transfer.made_directories import frames
from tests.qjm_compat.transfer.spoiled_journal import NAMES, Journal, batch_of
from tests.support.aio import until_true

DAY_MS = 24 * 3600 * 1000


async def delete(journal: Journal, found: JournalFindings) -> Deleted:
    async with journal.inspector() as inspector:
        return await delete_orphans(inspector, found, 0)


async def kept(journal: Journal) -> list[str | None]:
    """Why the orphans that there are would not be deleted."""
    done = await delete(journal, await journal.check(orphan_age_seconds=0))
    assert done.count == 0
    return [orphan.why_kept for orphan in done.kept]


async def is_there(client: LedgerClient, ledger_id: int) -> bool:
    try:
        await client.describe_ledger(ledger_id)
    except NoSuchLedger:
        return False
    return True


async def test_ledgers_that_nothing_refers_to_are_found_when_they_are_old_enough_and_deleted(
    journal: Journal,
) -> None:
    orphan = await journal.ledger("b", batch_of(frames(1, 10)), first_txid=31)
    stranger = await journal.client.create_ledger(custom_metadata={JOURNAL_OF_LEDGER: b"ns2"})
    assert await journal.problems() == []
    found = await journal.check(orphan_age_seconds=0)
    assert [str(problem) for problem in found.problems] == [
        f"journal: ledger {orphan} was created for segment 31 of acceptor b, and nothing refers to it"
    ]
    async with journal.inspector() as inspector:
        assert (await delete_orphans(inspector, found, 0)).count == 1
        assert await delete_orphans(inspector, found, 0) == Deleted()
    with pytest.raises(NoSuchLedger):
        await journal.client.describe_ledger(orphan)
    await journal.client.describe_ledger(stranger.ledger_id)
    assert (await journal.check(orphan_age_seconds=0)).problems == []


async def test_what_is_referred_to_when_it_comes_to_deleting_is_kept(journal: Journal) -> None:
    late = await journal.ledger("b", batch_of(frames(1, 10)), closed=False)
    found = await journal.check(orphan_age_seconds=0)
    assert [orphan.ledger_id for orphan in found.orphans] == [late]
    await journal.replace_ledger("b", late)
    async with journal.inspector() as inspector:
        assert await delete_orphans(inspector, found, 0) == Deleted()
    assert not (await journal.client.describe_ledger(late)).is_closed, "nor is its writer fenced"


async def test_a_ledger_that_only_a_wrong_clock_makes_old_is_kept_where_something_refers_to_it_before_it_was_seen_long(
    journal: Journal,
) -> None:
    young = await journal.ledger("b", batch_of(frames(1, 10)))
    async with journal.inspector() as inspector:
        inspector.now_ms = lambda: time.time_ns() // 1_000_000 + DAY_MS  # type: ignore[method-assign]
        found = await check_journal(inspector)
    assert [(one.ledger_id, one.why_kept) for one in found.orphans] == [(young, None)]
    waited = []

    async def refer_to_it(seconds: float) -> None:
        waited.append(seconds)
        await journal.replace_ledger("b", young)

    async with journal.inspector() as inspector:
        assert await delete_orphans(inspector, found, wait=refer_to_it) == Deleted()
    assert waited == [pytest.approx(ORPHAN_AGE_SECONDS, abs=60)]
    assert await is_there(journal.client, young)


async def test_nothing_is_deleted_while_there_are_other_problems(journal: Journal) -> None:
    orphan = await journal.ledger("b", batch_of(frames(1, 10)))
    await journal.client.delete_ledger((await journal.record("c")).ledger_id)
    found = await journal.check(orphan_age_seconds=0)
    assert [(one.ledger_id, one.why_kept) for one in found.orphans] == [(orphan, None)]
    with pytest.raises(TransferRefused, match=r"other problems \(1\)"):
        await delete(journal, found)
    assert await is_there(journal.client, orphan)


async def test_an_oldest_segment_whose_records_are_lost_everywhere_keeps_its_ledgers(
    journal: Journal,
) -> None:
    ledgers = [(await journal.record(name)).ledger_id for name in NAMES]
    for name in NAMES:
        await journal.lose_record(name)
    found = await journal.check(orphan_age_seconds=0)
    assert found.problems_beside_orphans == 0
    assert found.notes == ["the journal begins with txid 11, and nothing before it was purged"]
    assert await kept(journal) == ["it holds txid 1, which no finalized segment has"] * 3
    assert [await is_there(journal.client, ledger_id) for ledger_id in ledgers] == [True] * 3


async def test_ledgers_of_an_acceptor_whose_state_is_lost_are_kept(journal: Journal) -> None:
    await journal.lose(keys.journal_state("ns1", "b"))
    found = await journal.check(orphan_age_seconds=0)
    assert str(found.problems[0]).startswith("acceptor b: it is not formatted: `bookledger journal format`")
    assert len(found.orphans) == 2, "nothing refers to its ledgers now"
    with pytest.raises(TransferRefused, match=r"other problems \(2\)"):
        await delete(journal, found)
    del journal.acceptors[1]
    found = await journal.check(orphan_age_seconds=0)
    assert found.problems_beside_orphans == 0
    assert set(await kept(journal)) == {"acceptor b was not examined"}


async def test_an_orphan_with_txids_of_its_own_is_kept_and_told(journal: Journal) -> None:
    whole = batch_of(frames(11, 21), 11)
    beyond = await journal.ledger("b", replace(whole, first_txid=11), first_txid=11)
    assert await kept(journal) == ["it holds txid 21, which no finalized segment has"]
    assert await is_there(journal.client, beyond)


async def test_an_orphan_that_cannot_be_read_is_kept_and_told(journal: Journal) -> None:
    records = bytearray(frames(1, 10))
    records[30] ^= 1
    damaged = await journal.ledger("b", batch_of(bytes(records)))
    (why,) = await kept(journal)
    assert why is not None and why.startswith("it cannot be read: at offset")
    assert await is_there(journal.client, damaged)


async def test_an_orphan_that_is_still_open_is_ended_before_it_is_judged(journal: Journal) -> None:
    """What a reader sees of an open ledger may be less than what is in it."""
    labels = {JOURNAL_OF_LEDGER: b"ns1", ACCEPTOR_OF_LEDGER: b"b", SEGMENT_OF_LEDGER: b"21"}
    writer = await journal.client.create_ledger(custom_metadata=labels)
    for entry in entries_of(Batch(21, 10, frames(21, 30), None, 1)):
        await writer.append(entry)
    found = await journal.check(orphan_age_seconds=0)
    found.orphans = [replace(orphan, why_kept=None) for orphan in found.orphans]
    done = await delete(journal, found)
    assert [orphan.why_kept for orphan in done.kept] == ["it holds txid 21, which no finalized segment has"]
    assert (await journal.client.describe_ledger(writer.ledger_id)).is_closed


async def test_what_was_purged_everywhere_need_not_be_held_by_a_segment(journal: Journal) -> None:
    left = await journal.ledger("b", batch_of(frames(1, 10)))
    async with journal.manager() as manager:
        await manager.recover_unfinalized_segments()
        await manager.purge(11)
        async with journal.inspector() as inspector:
            await until_true(lambda: _have_purged(inspector))
    done = await delete(journal, await journal.check(orphan_age_seconds=0))
    assert (done.count, done.kept) == (1, [])
    assert not await is_there(journal.client, left)


async def _have_purged(inspector: JournalInspector) -> bool:
    seen = await inspector.look_at_all()
    return all(one.state.purged_below == 11 for one in seen.values())
