"""A journal that is whole, and everything that can be wrong with one, on real bookies."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pytest

from metadata import keys
from metadata.records.journal_record import SegmentRecord
from metadata.records.journal_store import JournalStore, VersionedSegment
from qjm_compat.aio import QuorumJournalManager
from qjm_compat.config import AcceptorConfig
from qjm_compat.edits import encode_frame
from qjm_compat.errors import JournalUnavailable
from qjm_compat.manager.output_stream import EditLogOutputStream
from qjm_compat.transfer.checking.fsck import check_journal
from qjm_compat.transfer.inspection import inspector as survey_module
from qjm_compat.transfer.inspection.acceptor_seen import AcceptorSeen
from qjm_compat.transfer.inspection.inspector import JournalInspector
from tests.qjm_compat.transfer.made_directories import LAYOUT, frames
from tests.qjm_compat.transfer.spoiled_journal import NAMES, Journal, batch_of, on_a_journal
from tests.support.in_process import QUICK


async def test_a_whole_journal_has_no_problems_and_all_of_it_was_read(journal: Journal) -> None:
    found = await journal.check(deep=True, orphan_age_seconds=0)
    assert (found.problems, found.notes, found.orphans) == ([], [], [])
    assert (found.first_txid, found.last_txid, found.segments) == (1, 20, 2)
    assert (found.ops, found.bytes) == (60, 3 * len(frames(1, 20)))


async def test_a_ledger_that_is_gone_is_found(journal: Journal) -> None:
    ledger_id = (await journal.record("b")).ledger_id
    await journal.client.delete_ledger(ledger_id)
    assert await journal.problems() == [f"acceptor b, segment 1: there is no ledger {ledger_id}"]


async def test_a_ledger_that_ends_elsewhere_than_its_record_is_found(journal: Journal) -> None:
    short = await journal.ledger("b", batch_of(frames(1, 9), 9))
    await journal.replace_ledger("b", short)
    assert await journal.problems() == [
        f"acceptor b, segment 1: its ledger {short} ends at txid 9, not at 10"
    ]


async def test_copies_of_equal_length_that_hold_other_edits_are_found(journal: Journal) -> None:
    other = b"".join(encode_frame(24, txid, b"") for txid in range(1, 11))
    await journal.replace_ledger("b", await journal.ledger("b", batch_of(other)))
    assert await journal.problems() == ["segment 1-10: the copies of a, b, c hold different edits"]


async def test_copies_that_are_only_cut_into_other_batches_are_the_same(journal: Journal) -> None:
    await journal.replace_ledger("b", await journal.ledger("b", batch_of(frames(1, 10))))
    assert await journal.problems() == []


async def test_a_frame_with_one_bit_wrong_is_found(journal: Journal) -> None:
    for byte in (0, 1, 8, 30, -1):
        records = bytearray(frames(1, 10))
        records[byte] ^= 1
        await journal.replace_ledger("b", await journal.ledger("b", batch_of(bytes(records))))
        (problem,) = await journal.problems()
        assert problem.startswith("acceptor b, segment 1: after txid 0: at offset"), byte


async def test_an_op_that_cannot_be_decoded_is_found_by_a_deep_check(journal: Journal) -> None:
    records = encode_frame(24, 1, b"more than it may have") + frames(2, 10)
    for name in NAMES:
        await journal.replace_ledger(name, await journal.ledger(name, batch_of(records)))
    assert await journal.problems() == []
    problems = await journal.problems(deep=True)
    assert [problem.partition(":")[0] for problem in problems] == [
        f"acceptor {name}, segment 1" for name in NAMES
    ]


async def test_a_ledger_that_is_still_open_or_was_made_for_another_segment_is_found(journal: Journal) -> None:
    left_open = await journal.ledger("b", batch_of(frames(1, 10)), closed=False)
    await journal.replace_ledger("b", left_open)
    assert (await journal.problems())[0] == (
        f"acceptor b, segment 1: it ends at txid 10, but its ledger {left_open} is not closed"
    )
    other = await journal.ledger("c", batch_of(frames(1, 10)), first_txid=2)
    await journal.replace_ledger("b", other)
    assert await journal.problems() == [
        f"acceptor b, segment 1: its ledger {other} has bookledger.acceptor='c', not 'b'",
        f"acceptor b, segment 1: its ledger {other} has bookledger.segment='2', not '1'",
    ]


async def test_what_a_record_cannot_say_is_found(journal: Journal) -> None:
    await journal.put("b", replace(await journal.record("b"), writer_epoch=99))
    assert await journal.problems() == [
        "acceptor b: segment 1 is of epoch 99, but the highest promised epoch is 1"
    ]


async def test_an_acceptor_that_was_never_formatted_is_found(journal: Journal) -> None:
    journal.acceptors.append(AcceptorConfig("d", journal.cluster.uri))
    first, *others = await journal.problems()
    assert first == (
        "acceptor d: it is not formatted: `bookledger journal format` adds it to the others, `bookledger journal "
        "sync` copies what they have"
    )
    assert [other.partition(": ")[0] for other in others] == ["2 segments, 1-10 to 11-20"]


async def test_acceptors_of_different_namespaces_are_found(journal: Journal) -> None:
    found = await journal.store("c").read_state()
    assert found is not None and found.state.storage is not None
    other = replace(found.state, storage=replace(found.state.storage, namespace_id=999))
    assert await journal.store("c").swap_state(other, found.version)
    (problem,) = await journal.problems()
    assert problem.startswith("journal: the acceptors are of different namespaces: a, b: ")


async def test_a_record_that_cannot_be_decoded_is_told_and_all_else_is_checked(journal: Journal) -> None:
    await journal.overwrite(keys.journal_segment("ns1", "b", 1))
    found = await journal.check()
    told = str(found.problems[0])
    assert told.startswith("acceptor b: the record under metadata key 'journals/ns1/b/segments/")
    copies = [(copy.acceptor, copy.first_txid) for copy in found.copies]
    assert copies == [("a", 1), ("a", 11), ("b", 11), ("c", 1), ("c", 11)]
    assert str(found.problems[1]).startswith("journal: could not search for unreferenced ledgers")
    assert (len(found.problems), found.orphans) == (2, [])


async def test_a_state_that_cannot_be_decoded_is_told_and_the_other_acceptors_are_checked(
    journal: Journal,
) -> None:
    await journal.overwrite(keys.journal_state("ns1", "b"))
    found = await journal.check()
    assert str(found.problems[0]).startswith("acceptor b: the metadata store under the journal failed")
    assert {copy.acceptor for copy in found.copies} == {"a", "c"}
    assert (len(found.problems), found.last_txid) == (2, 20)


async def test_a_record_with_another_layout_is_found(journal: Journal) -> None:
    await journal.put("b", replace(await journal.record("b"), layout_version=-60))
    assert await journal.problems() == [
        "segment 1-10: the copies have different layouts: a has -63, b has -60, c has -63"
    ]


async def test_a_latest_segment_that_is_lost_everywhere_is_found(journal: Journal) -> None:
    for name in NAMES:
        await journal.lose_record(name, 11)
        found = await journal.store(name).read_state()
        assert found is not None
        assert await journal.store(name).swap_state(replace(found.state, segments=()), found.version)
    assert await journal.problems() == [
        f"acceptor {name}: segment 11 is the last finalized one, but is missing" for name in NAMES
    ]


Hooks: TypeAlias = list[Callable[[], Awaitable[None]]]


class OvertakenInspector(JournalInspector):
    """One that is overtaken by the next of the hooks when it has looked at the acceptors."""

    hooks: Hooks

    async def look_at_those_that_answer(
        self,
    ) -> tuple[dict[str, AcceptorSeen], dict[str, JournalUnavailable]]:
        found = await super().look_at_those_that_answer()
        if self.hooks:
            await self.hooks.pop()()
        return found


async def test_what_is_purged_meanwhile_is_no_problem(journal: Journal) -> None:

    async def purge() -> None:
        async with journal.manager() as manager:
            await manager.recover_unfinalized_segments()
            await manager.purge(11)

    async with OvertakenInspector("ns1", journal.acceptors, client_config=QUICK) as inspector:
        inspector.hooks = [purge]
        found = await check_journal(inspector)
        assert (found.problems, found.first_txid) == ([], 11)
        assert inspector.hooks == []


async def test_a_segment_that_gets_its_record_meanwhile_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks: Hooks = []

    class Overtaken(JournalStore):
        async def list_segments(self) -> AsyncIterator[VersionedSegment]:
            async for found in super().list_segments():
                yield found
            if hooks:
                await hooks.pop()()

    async with (
        on_a_journal(tmp_path) as journal,
        journal.manager() as writer,
        journal.inspector() as inspector,
    ):
        await writer.recover_unfinalized_segments()
        out = await begin(writer, 21)

        async def roll() -> None:
            await out.close()
            await writer.finalize_log_segment(21, 25)
            assert await inspector.lacking(21) == []
            await begin(writer, 26)
            await inspector.until_seen(26, 30)

        with monkeypatch.context() as patch:
            patch.setattr(survey_module, "JournalStore", Overtaken)
            hooks.append(roll)
            found = await journal.check()
        assert (found.problems, found.notes, hooks) == ([], [], [])


async def begin(writer: QuorumJournalManager, first_txid: int) -> EditLogOutputStream:
    """A segment with five edits, which stays open."""
    out = await writer.start_log_segment(first_txid)
    out.write_raw(frames(first_txid, first_txid + 4), 5)
    out.set_ready_to_flush()
    await out.flush()
    return out


async def test_what_a_minority_has_left_unfinished_is_noted_and_nobodys_to_take_over(
    journal: Journal,
) -> None:
    store = journal.store("c")
    state, record = await store.read_state(), await store.read_segment(11)
    assert state is not None and record is not None
    left = SegmentRecord(11, record.segment.ledger_id, LAYOUT, 1, 20)
    assert await store.swap_state(
        replace(state.state, segments=(left,), last_finalized_start=1), state.version
    )
    await store.delete_segment(record)
    found = await journal.check(orphan_age_seconds=0)
    assert (found.problems, found.notes) == ([], ["segment 11-20: acceptor c does not have it finalized"])
    async with journal.inspector() as inspector:
        assert await inspector.in_progress() is None


async def test_a_writer_is_not_disturbed_and_what_it_writes_is_checked(journal: Journal) -> None:
    async with journal.manager() as writer, journal.inspector() as inspector:
        await writer.recover_unfinalized_segments()
        async with await writer.start_log_segment(21) as out:
            for first in (21, 26):
                out.write_raw(frames(first, first + 4), 5)
                out.set_ready_to_flush()
                await out.flush()
                await inspector.until_seen(21, first + 4)
                found = await journal.check(orphan_age_seconds=0)
                assert (found.problems, found.last_txid) == ([], first + 4)
        await writer.finalize_log_segment(21, 30)
    assert (await journal.check()).last_txid == 30
