"""A stream over a journal: every edit once, or an error; also where history was purged, rewritten or copied."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes

from ledgers import LedgerError
from metadata import open_store
from metadata.records.journal_record import Dropped, FinalizedSegment, JournalState, JournalStorage
from metadata.records.journal_store import JournalStore
from metadata.records.ledger_store import LedgerStore
from qjm_compat.aio import QuorumJournalManager
from spark.planning.options import LedgerOptions
from spark.stream.journal_stream import JournalSegmentsStream
from spark.stream.offsets import BadOffset
from tests.spark.conftest import Cluster
from tests.spark.journals import write_segments
from tests.spark.made import closed
from tests.spark.stream.streamed import SCHEMA
from tests.support.aio import run
from tests.support.ledgers import delete

FORMATTED = JournalState(storage=JournalStorage(-63, 1, "CID"))

_stores = count()


class Journal:
    """A journal made of records alone, and the ledgers of its segments; no bookie has to live."""

    def __init__(self) -> None:
        self.uri = f"memory://journal-{next(_stores)}"

    def finalize(self, acceptor: str, *segments: tuple[int, int, int]) -> None:
        """Segments as (first txid, last txid, ledger), instead of those that begin with the same txid."""
        run(self._finalize(acceptor, segments))

    def drop(self, acceptor: str, *, purged_below: int = 0) -> None:
        run(self._swap(acceptor, purged_below))

    async def _finalize(self, acceptor: str, segments: tuple[tuple[int, int, int], ...]) -> None:
        store = await open_store(self.uri)
        journal = JournalStore(store, "ns1", acceptor)
        if await journal.read_state() is None:
            await journal.swap_state(FORMATTED, None)
        state = await journal.read_state()
        assert state
        for start, end, ledger_id in segments:
            if await LedgerStore(store).read(ledger_id) is None:
                await LedgerStore(store).create(closed(ledger_id, 10, 1000))
            found = await journal.read_segment(start)
            made = FinalizedSegment(start, end, ledger_id, -63, 1, state.state.generation)
            assert await journal.put_segment(made, found.version if found else None)

    def take_back(self, acceptor: str, from_txid: int) -> None:
        """As a discard or a rollback does: what was finalized from there on is dropped, a new generation begins."""
        run(self._take_back(acceptor, from_txid))

    async def _take_back(self, acceptor: str, from_txid: int) -> None:
        journal = JournalStore(await open_store(self.uri), "ns1", acceptor)
        found = await journal.read_state()
        assert found
        state = found.state
        dropped = (*state.dropped, Dropped(0, state.generation, from_txid))
        assert await journal.swap_state(
            replace(state, generation=state.generation + 1, dropped=dropped), found.version
        )

    async def _swap(self, acceptor: str, purged_below: int) -> None:
        journal = JournalStore(await open_store(self.uri), "ns1", acceptor)
        found = await journal.read_state()
        assert found and await journal.swap_state(
            replace(found.state, purged_below=purged_below), found.version
        )


class Stream:
    """A stream as Spark drives it."""

    def __init__(self, uri: str, journal: str = "ns1", acceptors: str = "main", **others: str) -> None:
        options = {"metadata": uri, "journal": journal, "acceptors": acceptors, **others}
        self.reader = JournalSegmentsStream(LedgerOptions.of(options), SCHEMA)
        self.offset = self.reader.initialOffset()

    def latest(self, limit: ReadLimit | None = None) -> dict[str, Any]:
        return self.reader.latestOffset(json.loads(json.dumps(self.offset)), limit or ReadAllAvailable())

    def ledgers(self, end: dict[str, Any]) -> list[int]:
        return [one.ledger_id for task in self.reader.partitions(self.offset, end) for one in task.ranges]

    def batch(self, limit: ReadLimit | None = None) -> list[int]:
        """The ledgers of the next batch."""
        end = self.latest(limit)
        found = self.ledgers(end)
        self.offset = end
        return found


@pytest.fixture
def journal() -> Journal:
    made = Journal()
    made.finalize("main", (1, 10, 101), (11, 20, 102))
    return made


def test_segments_come_once_each_as_they_are_finalized(journal: Journal) -> None:
    stream = Stream(journal.uri)
    assert [stream.batch(), stream.batch()] == [[101, 102], []]
    journal.finalize("main", (21, 30, 103))
    assert [stream.batch(), stream.batch()] == [[103], []]


def test_a_rate_limit_takes_segments_in_the_order_of_transactions(journal: Journal) -> None:
    journal.finalize("main", *[(n, n, 1000 - n) for n in range(21, 221)])
    stream = Stream(journal.uri)
    assert stream.batch(ReadMaxBytes(1)) == [101]
    assert stream.batch(ReadMaxBytes(150_000)) == [102, *(1000 - n for n in range(21, 170))]
    assert len(stream.batch(ReadMaxBytes(10**9))) == 51


def test_all_that_is_there_now_is_what_the_first_look_finds(journal: Journal) -> None:
    stream = Stream(journal.uri)
    stream.reader.prepareForTriggerAvailableNow()
    assert stream.batch(ReadMaxBytes(1)) == [101]
    journal.finalize("main", (21, 30, 103))
    assert [stream.batch(), stream.batch()] == [[102], []]


def test_a_checkpoint_is_refused_for_another_journal_or_other_acceptors(journal: Journal) -> None:
    stream = Stream(journal.uri)
    stream.batch()
    for other in Stream(journal.uri, "ns2"), Stream(journal.uri, acceptors="main,b"):
        with pytest.raises(BadOffset, match="the checkpoint belongs to journal ns1 at acceptors main"):
            other.reader.latestOffset(stream.offset, ReadAllAvailable())
        with pytest.raises(BadOffset, match="the checkpoint belongs to journal ns1 at acceptors main"):
            other.reader.partitions(other.reader.initialOffset(), stream.offset)


@pytest.mark.parametrize(
    "again", [[(11, 18)], [(11, 18), (19, 30)], [(11, 30)], [(11, 15), (16, 20), (21, 25)]]
)
def test_history_that_was_taken_back_and_written_again_ends_the_stream(
    cluster: Cluster, again: list[tuple[int, int]]
) -> None:
    name = f"again-{next(_stores)}"
    run(write_segments(cluster.uri, name, [(1, 10), (11, 20)]))
    stream = Stream(cluster.uri, name)
    assert len(stream.batch()) == 2
    run(discard(cluster.uri, name, 11))
    with pytest.raises(
        LedgerError, match=f"journal {name} was rewritten: transactions 11 to 20 .* begin again"
    ):
        stream.latest()
    run(write_segments(cluster.uri, name, again))
    with pytest.raises(
        LedgerError, match=f"journal {name} was rewritten: transactions 11 to 20 .* begin again"
    ):
        stream.latest()


async def discard(uri: str, journal_id: str, start_txid: int) -> None:
    async with QuorumJournalManager(uri, journal_id) as manager:
        await manager.recover_unfinalized_segments()
        await manager.discard_segments(start_txid)


@pytest.mark.parametrize("options", [{}, {"failOnDataLoss": "false"}])
def test_a_batch_whose_segments_were_replaced_before_it_was_read_ends_the_stream_whatever_it_may_leave_out(
    journal: Journal, options: dict[str, str]
) -> None:
    stream = Stream(journal.uri, **options)
    end = stream.latest()
    journal.finalize("main", (11, 20, 112))
    with pytest.raises(LedgerError, match="transactions 11 to 20 were read from ledger 102"):
        stream.ledgers(end)


def test_segments_purged_once_they_were_read_are_not_missed(journal: Journal) -> None:
    stream = Stream(journal.uri)
    stream.batch()
    journal.drop("main", purged_below=21)
    assert stream.batch() == []
    journal.finalize("main", (21, 30, 103))
    assert stream.batch() == [103]


def test_segments_purged_unread_end_the_stream_or_are_left_out_and_named(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    stream = Stream(journal.uri)
    stream.batch()
    journal.finalize("main", (21, 30, 103), (31, 40, 104))
    journal.drop("main", purged_below=31)
    with pytest.raises(LedgerError, match=r"no longer has transactions 21 to 30: .*failOnDataLoss=false"):
        stream.latest()
    tolerant = Stream(journal.uri, failOnDataLoss="false")
    tolerant.offset = stream.offset
    assert tolerant.batch(ReadMaxBytes(1)) == [104]
    assert "journal ns1 no longer has transactions 21 to 30" in caplog.text
    stream.offset = tolerant.offset
    assert stream.batch() == []


def test_of_a_batch_that_was_purged_in_part_the_rest_is_given(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    stream = Stream(journal.uri, failOnDataLoss="false")
    end = stream.latest()
    journal.drop("main", purged_below=11)
    assert stream.ledgers(end) == [102]
    assert "journal ns1 no longer has transactions 1 to 10" in caplog.text
    journal.drop("main", purged_below=21)
    assert stream.ledgers(end) == []
    assert "journal ns1 no longer has transactions 1 to 20" in caplog.text


def test_a_first_batch_that_is_repeated_has_what_it_had_or_fails(journal: Journal) -> None:
    stream = Stream(journal.uri)
    end = stream.latest()
    journal.drop("main", purged_below=11)
    with pytest.raises(LedgerError, match="no longer has transactions 1 to 10"):
        stream.ledgers(end)


def test_a_ledger_deleted_before_it_was_read_is_named(
    journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    async def deleted() -> None:
        await delete(LedgerStore(await open_store(journal.uri)), 102)

    stream = Stream(journal.uri)
    end = stream.latest()
    run(deleted())
    with pytest.raises(LedgerError, match="ledger 102 was deleted before the stream had read it; start"):
        stream.ledgers(end)
    stream = Stream(journal.uri, failOnDataLoss="false")
    assert stream.ledgers(end) == [101]
    assert "ledger 102 was deleted before the stream had read it" in caplog.text


def test_another_acceptors_copy_of_what_was_read_is_no_new_history(journal: Journal) -> None:
    journal.finalize("b", (1, 10, 201), (11, 20, 202), (21, 30, 203))
    stream = Stream(journal.uri, acceptors="main,b,unheard")
    assert stream.batch() == [101, 102, 203]
    end = stream.offset
    journal.finalize("main", (21, 30, 103))  # this acceptor was a moment later
    assert stream.batch() == [] and stream.offset == end
    journal.finalize("main", (31, 40, 104))
    assert stream.batch() == [104]


def test_what_no_acceptor_has_any_more_is_other_history(journal: Journal) -> None:
    journal.finalize("b", (1, 10, 201), (11, 20, 202))
    stream = Stream(journal.uri, acceptors="main,b")
    stream.batch()
    journal.finalize("main", (11, 20, 112))
    with pytest.raises(LedgerError, match="transactions 11 to 20 were read from ledger 102"):
        stream.latest()


def test_history_that_was_rewritten_stays_refused_when_the_new_one_is_purged(journal: Journal) -> None:
    """What was delivered in its place is gone, and nothing of it but the drop is left to see."""
    stream = Stream(journal.uri)
    assert stream.batch() == [101, 102]
    journal.take_back("main", 11)
    journal.finalize("main", (11, 20, 112), (21, 30, 113))
    for purged_below in (0, 21):
        journal.drop("main", purged_below=purged_below)
        with pytest.raises(LedgerError, match="journal ns1 was rewritten"):
            stream.batch()


def test_what_is_taken_back_behind_all_that_was_delivered_does_not_concern_a_stream(journal: Journal) -> None:
    stream = Stream(journal.uri)
    stream.offset = stream.latest(ReadMaxBytes(1000))
    journal.take_back("main", 11)
    journal.finalize("main", (11, 20, 112))
    assert stream.batch() == [112]
