"""A journal that is whole, and everything that can be wrong with one, on real bookies."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pytest

from ledgers import NoSuchLedger
from ledgers.aio import LedgerClient
from metadata.journal_record import FinalizedSegment, SegmentRecord
from metadata.journal_store import JournalStore, VersionedSegment
from qjm_compat.aio import QuorumJournalManager
from qjm_compat.batch import Batch
from qjm_compat.config import AcceptorConfig, JournalConfig
from qjm_compat.edits import encode_frame
from qjm_compat.errors import JournalUnavailable
from qjm_compat.manager.output_stream import EditLogOutputStream
from qjm_compat.requests import NamespaceInfo
from qjm_compat.segment_ledgers import JOURNAL_OF_LEDGER, SegmentLedgers
from qjm_compat.transfer import survey as survey_module
from qjm_compat.transfer.acceptor_seen import AcceptorSeen
from qjm_compat.transfer.findings import Findings
from qjm_compat.transfer.fsck import check_journal
from qjm_compat.transfer.orphans import delete_orphans
from qjm_compat.transfer.survey import Survey
from tests.qjm_compat.transfer.made_directories import CLUSTER_ID, LAYOUT, NAMESPACE_ID, frames
from tests.support.in_process import QUICK, InProcessCluster, on_bookies

NAMES = ("a", "b", "c")


class Journal:
    """Segments 1-10 and 11-20 at three acceptors, and ways to spoil them."""

    def __init__(self, cluster: InProcessCluster, client: LedgerClient) -> None:
        self.cluster = cluster
        self.client = client
        self.acceptors = [AcceptorConfig(name, cluster.uri) for name in NAMES]

    def manager(self) -> QuorumJournalManager:
        return QuorumJournalManager(self.cluster.uri, "ns1", acceptors=self.acceptors, client_config=QUICK)

    async def write(self) -> None:
        namespace = NamespaceInfo(NAMESPACE_ID, CLUSTER_ID, layout_version=LAYOUT)
        async with self.manager() as manager:
            await manager.format(namespace)
            await manager.recover_unfinalized_segments()
            for first in (1, 11):
                async with await manager.start_log_segment(first) as out:
                    for txid in range(first, first + 10, 5):
                        out.write_raw(frames(txid, txid + 4), 5)
                        out.set_ready_to_flush()
                        await out.flush()
                await manager.finalize_log_segment(first, first + 9)
            async with self.survey() as survey:  # what two acceptors have done the third may still be doing
                assert await survey.lacking(11) == []

    def survey(self) -> Survey:
        return Survey("ns1", self.acceptors, client_config=QUICK)

    async def check(self, *, deep: bool = False, orphan_age_seconds: float = 3600) -> Findings:
        async with self.survey() as survey:
            return await check_journal(survey, deep=deep, orphan_age_seconds=orphan_age_seconds)

    async def problems(self, *, deep: bool = False) -> list[str]:
        return [str(problem) for problem in (await self.check(deep=deep)).problems]

    def store(self, acceptor: str) -> JournalStore:
        return JournalStore(self.cluster.store, "ns1", acceptor)

    async def record(self, acceptor: str) -> FinalizedSegment:
        """The record of segment 1, which no state holds any more."""
        found = await self.store(acceptor).read_segment(1)
        assert found is not None
        return found.segment

    async def put(self, acceptor: str, segment: FinalizedSegment) -> None:
        found = await self.store(acceptor).read_segment(segment.start_txid)
        assert found is not None
        assert await self.store(acceptor).put_segment(segment, found.version)

    async def ledger(self, acceptor: str, *batches: Batch, first_txid: int = 1, closed: bool = True) -> int:
        """A ledger with these batches, made for a segment of the acceptor."""
        ledgers = SegmentLedgers(self.client, "ns1", acceptor, JournalConfig())
        ledger_id = await ledgers.create(first_txid)
        for batch in batches:
            await (await ledgers.append(ledger_id, batch)).confirmed()
        if closed:
            await ledgers.end(ledger_id)
        else:
            await ledgers.close()
        return ledger_id

    async def replace_ledger(self, acceptor: str, ledger_id: int) -> None:
        await self.put(acceptor, replace(await self.record(acceptor), ledger_id=ledger_id))


Scenario: TypeAlias = Callable[[Journal], Awaitable[None]]


def on_a_journal(tmp_path: Path, scenario: Scenario) -> None:
    async def whole(cluster: InProcessCluster, client: LedgerClient) -> None:
        journal = Journal(cluster, client)
        await journal.write()
        await scenario(journal)

    on_bookies(tmp_path, 3, whole)


def batch_of(records: bytes, num_txns: int = 10) -> Batch:
    return Batch(1, num_txns, records, None, 1)


def test_a_whole_journal_has_no_problems_and_all_of_it_was_read(tmp_path: Path) -> None:
    async def scenario(journal: Journal) -> None:
        found = await journal.check(deep=True, orphan_age_seconds=0)
        assert (found.problems, found.notes, found.orphans) == ([], [], [])
        assert (found.first_txid, found.last_txid, found.segments) == (1, 20, 2)
        assert (found.ops, found.bytes) == (60, 3 * len(frames(1, 20)))

    on_a_journal(tmp_path, scenario)


def test_a_ledger_that_is_gone_is_found(tmp_path: Path) -> None:
    async def scenario(journal: Journal) -> None:
        ledger_id = (await journal.record("b")).ledger_id
        await journal.client.delete_ledger(ledger_id)
        assert await journal.problems() == [f"acceptor b, segment 1: there is no ledger {ledger_id}"]

    on_a_journal(tmp_path, scenario)


def test_a_ledger_that_ends_elsewhere_than_its_record_is_found(tmp_path: Path) -> None:
    async def scenario(journal: Journal) -> None:
        short = await journal.ledger("b", batch_of(frames(1, 9), 9))
        await journal.replace_ledger("b", short)
        assert await journal.problems() == [
            f"acceptor b, segment 1: its ledger {short} ends at txid 9, not at 10"
        ]

    on_a_journal(tmp_path, scenario)


def test_copies_of_equal_length_that_hold_other_edits_are_found(tmp_path: Path) -> None:
    async def scenario(journal: Journal) -> None:
        other = b"".join(encode_frame(24, txid, b"") for txid in range(1, 11))
        await journal.replace_ledger("b", await journal.ledger("b", batch_of(other)))
        assert await journal.problems() == ["segment 1-10: the copies of a, b, c hold different edits"]

    on_a_journal(tmp_path, scenario)


def test_copies_that_are_only_cut_into_other_batches_are_the_same(tmp_path: Path) -> None:
    async def scenario(journal: Journal) -> None:
        await journal.replace_ledger("b", await journal.ledger("b", batch_of(frames(1, 10))))
        assert await journal.problems() == []

    on_a_journal(tmp_path, scenario)


def test_a_frame_with_one_bit_wrong_is_found(tmp_path: Path) -> None:
    async def scenario(journal: Journal) -> None:
        for byte in (0, 1, 8, 30, -1):
            records = bytearray(frames(1, 10))
            records[byte] ^= 1
            await journal.replace_ledger("b", await journal.ledger("b", batch_of(bytes(records))))
            (problem,) = await journal.problems()
            assert problem.startswith("acceptor b, segment 1: behind txid 0: at offset"), byte

    on_a_journal(tmp_path, scenario)


def test_an_op_that_cannot_be_decoded_is_found_by_a_deep_check(tmp_path: Path) -> None:
    async def scenario(journal: Journal) -> None:
        records = encode_frame(24, 1, b"more than it may have") + frames(2, 10)
        for name in NAMES:
            await journal.replace_ledger(name, await journal.ledger(name, batch_of(records)))
        assert await journal.problems() == []
        problems = await journal.problems(deep=True)
        assert [problem.partition(":")[0] for problem in problems] == [
            f"acceptor {name}, segment 1" for name in NAMES
        ]

    on_a_journal(tmp_path, scenario)


def test_a_ledger_that_is_still_open_or_was_made_for_another_segment_is_found(tmp_path: Path) -> None:
    async def scenario(journal: Journal) -> None:
        left_open = await journal.ledger("b", batch_of(frames(1, 10)), closed=False)
        await journal.replace_ledger("b", left_open)
        assert (await journal.problems())[0] == (
            f"acceptor b, segment 1: it ends at txid 10, and its ledger {left_open} is not closed"
        )
        other = await journal.ledger("c", batch_of(frames(1, 10)), first_txid=2)
        await journal.replace_ledger("b", other)
        assert await journal.problems() == [
            f"acceptor b, segment 1: its ledger {other} says bookledger.acceptor='c', not 'b'",
            f"acceptor b, segment 1: its ledger {other} says bookledger.segment='2', not '1'",
        ]

    on_a_journal(tmp_path, scenario)


def test_what_a_record_cannot_say_is_found(tmp_path: Path) -> None:
    async def scenario(journal: Journal) -> None:
        await journal.put("b", replace(await journal.record("b"), writer_epoch=99))
        assert await journal.problems() == [
            "acceptor b: segment 1 is of epoch 99, and no more than 1 was promised"
        ]

    on_a_journal(tmp_path, scenario)


def test_an_acceptor_that_was_never_formatted_is_found(tmp_path: Path) -> None:
    async def scenario(journal: Journal) -> None:
        journal.acceptors.append(AcceptorConfig("d", journal.cluster.uri))
        assert (await journal.problems())[0] == "acceptor d: it is not formatted"

    on_a_journal(tmp_path, scenario)


def test_acceptors_of_different_namespaces_are_found(tmp_path: Path) -> None:
    async def scenario(journal: Journal) -> None:
        found = await journal.store("c").read_state()
        assert found is not None and found.state.storage is not None
        other = replace(found.state, storage=replace(found.state.storage, namespace_id=999))
        assert await journal.store("c").swap_state(other, found.version)
        (problem,) = await journal.problems()
        assert problem.startswith("journal: the acceptors are of different namespaces: a, b: ")

    on_a_journal(tmp_path, scenario)


Hooks: TypeAlias = list[Callable[[], Awaitable[None]]]


class OvertakenSurvey(Survey):
    """One that is overtaken by the next of the hooks when it has looked at the acceptors."""

    hooks: Hooks

    async def look_at_those_that_answer(
        self,
    ) -> tuple[dict[str, AcceptorSeen], dict[str, JournalUnavailable]]:
        found = await super().look_at_those_that_answer()
        if self.hooks:
            await self.hooks.pop()()
        return found


def test_what_is_purged_meanwhile_is_no_problem(tmp_path: Path) -> None:
    async def scenario(journal: Journal) -> None:
        async def purge() -> None:
            async with journal.manager() as manager:
                await manager.recover_unfinalized_segments()
                await manager.purge(11)

        async with OvertakenSurvey("ns1", journal.acceptors, client_config=QUICK) as survey:
            survey.hooks = [purge]
            found = await check_journal(survey)
            assert (found.problems, found.first_txid) == ([], 11)
            assert survey.hooks == []

    on_a_journal(tmp_path, scenario)


def test_a_segment_that_gets_its_record_meanwhile_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks: Hooks = []

    class Overtaken(JournalStore):
        async def list_segments(self) -> AsyncIterator[VersionedSegment]:
            async for found in super().list_segments():
                yield found
            if hooks:
                await hooks.pop()()

    async def scenario(journal: Journal) -> None:
        async with journal.manager() as writer, journal.survey() as survey:
            await writer.recover_unfinalized_segments()
            out = await begin(writer, 21)

            async def roll() -> None:
                await out.close()
                await writer.finalize_log_segment(21, 25)
                assert await survey.lacking(21) == []
                await begin(writer, 26)
                await survey.until_seen(26, 30)

            with monkeypatch.context() as patch:
                patch.setattr(survey_module, "JournalStore", Overtaken)
                hooks.append(roll)
                found = await journal.check()
            assert (found.problems, found.notes, hooks) == ([], [], [])

    on_a_journal(tmp_path, scenario)


async def begin(writer: QuorumJournalManager, first_txid: int) -> EditLogOutputStream:
    """A segment with five edits, which stays open."""
    out = await writer.start_log_segment(first_txid)
    out.write_raw(frames(first_txid, first_txid + 4), 5)
    out.set_ready_to_flush()
    await out.flush()
    return out


def test_what_a_minority_has_left_unfinished_is_noted_and_nobodys_to_take_over(tmp_path: Path) -> None:
    async def scenario(journal: Journal) -> None:
        store = journal.store("c")
        state, record = await store.read_state(), await store.read_segment(11)
        assert state is not None and record is not None
        left = SegmentRecord(11, record.segment.ledger_id, LAYOUT, 1, 20)
        assert await store.swap_state(replace(state.state, segments=(left,)), state.version)
        await store.delete_segment(record)
        found = await journal.check(orphan_age_seconds=0)
        assert (found.problems, found.notes) == ([], ["segment 11-20: acceptor c does not have it finalized"])
        async with journal.survey() as survey:
            assert await survey.in_progress() is None

    on_a_journal(tmp_path, scenario)


def test_ledgers_that_nothing_refers_to_are_found_when_they_are_old_enough_and_deleted(
    tmp_path: Path,
) -> None:
    async def scenario(journal: Journal) -> None:
        orphan = await journal.ledger("b", batch_of(frames(1, 10)), first_txid=31)
        stranger = await journal.client.create_ledger(custom_metadata={JOURNAL_OF_LEDGER: b"ns2"})
        assert await journal.problems() == []
        found = await journal.check(orphan_age_seconds=0)
        assert [str(problem) for problem in found.problems] == [
            f"journal: ledger {orphan} was made for segment 31 of acceptor b, and nothing refers to it"
        ]
        async with journal.survey() as survey:
            assert await delete_orphans(survey, found.orphans) == 1
            assert await delete_orphans(survey, found.orphans) == 0
        with pytest.raises(NoSuchLedger):
            await journal.client.describe_ledger(orphan)
        await journal.client.describe_ledger(stranger.ledger_id)
        assert (await journal.check(orphan_age_seconds=0)).problems == []

    on_a_journal(tmp_path, scenario)


def test_what_is_referred_to_when_it_comes_to_deleting_is_kept(tmp_path: Path) -> None:
    async def scenario(journal: Journal) -> None:
        late = await journal.ledger("b", batch_of(frames(1, 10)))
        found = await journal.check(orphan_age_seconds=0)
        assert [orphan.ledger_id for orphan in found.orphans] == [late]
        await journal.replace_ledger("b", late)
        async with journal.survey() as survey:
            assert await delete_orphans(survey, found.orphans) == 0
        await journal.client.describe_ledger(late)

    on_a_journal(tmp_path, scenario)


def test_a_writer_is_not_disturbed_and_what_it_writes_is_checked(tmp_path: Path) -> None:
    async def scenario(journal: Journal) -> None:
        async with journal.manager() as writer, journal.survey() as survey:
            await writer.recover_unfinalized_segments()
            async with await writer.start_log_segment(21) as out:
                for first in (21, 26):
                    out.write_raw(frames(first, first + 4), 5)
                    out.set_ready_to_flush()
                    await out.flush()
                    await survey.until_seen(21, first + 4)
                    found = await journal.check(orphan_age_seconds=0)
                    assert (found.problems, found.last_txid) == ([], first + 4)
            await writer.finalize_log_segment(21, 30)
        assert (await journal.check()).last_txid == 30

    on_a_journal(tmp_path, scenario)
