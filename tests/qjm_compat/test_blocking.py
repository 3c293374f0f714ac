"""The journal manager for ordinary code, on real bookies."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from itertools import islice
from pathlib import Path

import pytest

from ledgers import BadMetadataUri, ClientClosed
from qjm_compat import (
    AcceptorConfig,
    BadJournalState,
    BadRequest,
    JournalNotFormatted,
    QuorumFailed,
    QuorumJournalManager,
    StaleEpoch,
    StreamClosed,
)
from tests.qjm_compat.journals import JOURNAL, NAMESPACE, frames, mkdir
from tests.support.blocking import in_thread, use_on_bookies
from tests.support.in_process import QUICK


def open_journal(uri: str) -> QuorumJournalManager:
    return QuorumJournalManager(uri, JOURNAL, client_config=QUICK)


def formatted(uri: str) -> QuorumJournalManager:
    journal = open_journal(uri)
    journal.format(NAMESPACE)
    journal.recover_unfinalized_segments()
    return journal


async def test_a_journal_is_formatted_written_read_and_recovered(tmp_path: Path) -> None:
    def use(uri: str) -> None:
        with open_journal(uri) as journal:
            assert not journal.is_formatted()
            journal.format(NAMESPACE)
            assert journal.is_formatted() and journal.get_journal_c_time() == 0
            assert journal.recover_unfinalized_segments() is None and journal.epoch == 1
            with journal.start_log_segment(1) as out:
                out.write(mkdir(1, "/a"))
                out.write_raw(frames(2, 2), 2)
                out.set_ready_to_flush()
                assert out.flush() == out.committed_txid == 3
            journal.finalize_log_segment(1, 3)
            out = journal.start_log_segment(4)
            out.write_raw(frames(4, 2), 2)
            out.set_ready_to_flush()
            assert out.flush() == 5
            assert "Writing segment beginning at txid 4" in journal.report()
            assert journal.metrics()["Journal-ns1"]["TxnsWritten"] == 5
        with open_journal(uri) as journal:
            assert journal.namespace().cluster_id == NAMESPACE.cluster_id
            recovered = journal.recover_unfinalized_segments()
            assert recovered is not None and (recovered.start_txid, recovered.end_txid) == (4, 5)
            streams = journal.select_input_streams(2)
            assert [(s.first_txid, s.last_txid, s.is_in_progress) for s in streams] == [
                (2, 3, False),
                (4, 5, False),
            ]
            assert [op.txid for stream in streams for op in stream] == [2, 3, 4, 5]
            edits = journal.journaled_edits(4)
            assert edits is not None and edits.records == frames(4, 2)
            journal.discard_segments(4)
            assert [op.txid for stream in journal.select_input_streams() for op in stream] == [1, 2, 3]

    await use_on_bookies(tmp_path, use)


async def test_flushes_of_one_thread_are_waited_for_by_others(tmp_path: Path) -> None:
    def use(uri: str) -> None:
        with formatted(uri) as journal, journal.start_log_segment(1) as out:
            flushes: list[Future[int]] = []
            for txid in range(1, 201):
                out.write_raw(frames(txid, 1), 1)
                out.set_ready_to_flush()
                flushes.append(out.flush_async())
            waiters = [in_thread(flush.result) for flush in flushes[::20]]
            assert [wait() for wait in waiters] == list(range(1, 201, 20))
            assert out.flush() == 200

    await use_on_bookies(tmp_path, use)


async def test_readers_in_threads_and_a_writer_share_one_manager(tmp_path: Path) -> None:
    def use(uri: str) -> None:
        with formatted(uri) as journal:
            started = threading.Barrier(4)

            def follow() -> list[int]:
                started.wait()
                edits = journal.tail(1)
                return [next(edits).txid for _ in range(30)]

            followers = [in_thread(follow) for _ in range(3)]
            started.wait()
            for first in (1, 11, 21):
                with journal.start_log_segment(first) as out:
                    for txid in range(first, first + 10):
                        out.write_raw(frames(txid, 1), 1)
                        out.set_ready_to_flush()
                        out.flush()
                journal.finalize_log_segment(first, first + 9)
            assert [follower() for follower in followers] == [list(range(1, 31))] * 3

    await use_on_bookies(tmp_path, use)


async def test_what_goes_wrong_is_raised_where_it_was_asked_for(tmp_path: Path) -> None:
    def use(uri: str) -> None:
        with open_journal(uri) as journal:
            with pytest.raises(QuorumFailed) as unformatted:
                journal.recover_unfinalized_segments()
            assert [type(e) for e in unformatted.value.errors.values()] == [JournalNotFormatted]
        with formatted(uri) as journal:
            with pytest.raises(QuorumFailed, match="already formatted"):
                journal.format(NAMESPACE)
            with pytest.raises(BadJournalState, match="already has epoch 1"):
                journal.recover_unfinalized_segments()
            with journal.start_log_segment(1) as out:  # it is the writer all the same
                with pytest.raises(BadRequest):
                    out.write(mkdir(2, "/not/next"))
                with open_journal(uri) as other:
                    other.recover_unfinalized_segments()
                out.write(mkdir(1, "/late"))
                out.set_ready_to_flush()
                with pytest.raises(QuorumFailed) as raised:
                    out.flush()
                assert [type(e) for e in raised.value.errors.values()] == [StaleEpoch]

    await use_on_bookies(tmp_path, use)


async def test_leaving_the_block_with_edits_that_were_not_flushed_is_an_error(tmp_path: Path) -> None:
    def use(uri: str) -> None:
        with formatted(uri) as journal:
            with pytest.raises(StreamClosed, match="1 transactions"), journal.start_log_segment(1) as out:
                out.write(mkdir(1, "/a"))
            with pytest.raises(ZeroDivisionError), journal.start_log_segment(1) as out:
                out.write(mkdir(1, "/a"))
                raise ZeroDivisionError

    await use_on_bookies(tmp_path, use)


async def test_a_closed_manager_and_its_streams_refuse_and_whoever_waits_is_woken(tmp_path: Path) -> None:
    def use(uri: str) -> None:
        journal = formatted(uri)
        out = journal.start_log_segment(1)
        tail = journal.tail(1)
        waiting = in_thread(lambda: next(tail))
        journal.close()
        journal.close()
        assert isinstance(waiting(), ClientClosed)
        for use_it in (journal.is_formatted, journal.report, out.flush, lambda: journal.start_log_segment(2)):
            with pytest.raises(ClientClosed):
                use_it()
        with open_journal(uri) as after:
            assert after.recover_unfinalized_segments() is None, "an empty segment never was"

    await use_on_bookies(tmp_path, use)


def client_threads() -> list[threading.Thread]:
    """Threads that clients started; the bookies' and the test's own pools come and go beside them."""
    return [thread for thread in threading.enumerate() if thread.name == "bookledger-client"]


async def test_a_manager_that_cannot_be_opened_leaves_no_thread(tmp_path: Path) -> None:
    def use(uri: str) -> None:
        before = client_threads()
        with pytest.raises(BadRequest, match="bad journal id"):
            QuorumJournalManager(uri, "not/a/name")
        twice = [AcceptorConfig("a", uri), AcceptorConfig("a", uri)]
        with pytest.raises(BadRequest, match="same name"):
            QuorumJournalManager(uri, JOURNAL, acceptors=twice)
        with pytest.raises(BadMetadataUri, match="nowhere"):
            QuorumJournalManager("sqlite:///nowhere/at/all.db", JOURNAL)
        assert client_threads() == before

    await use_on_bookies(tmp_path, use)


async def test_a_tail_may_be_dropped_at_any_time(tmp_path: Path) -> None:
    def use(uri: str) -> None:
        with formatted(uri) as journal:
            with journal.start_log_segment(1) as out:
                out.write_raw(frames(1, 5), 5)
                out.set_ready_to_flush()
                out.flush()
            for count in range(1, 6):
                assert [op.txid for op in islice(journal.tail(1), count)] == list(range(1, count + 1))

    await use_on_bookies(tmp_path, use)
