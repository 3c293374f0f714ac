"""Rounds in the background: they come again and again, say little, and end with their owner."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

import pytest

from metadata.records.journal_record import JournalState
from metadata.records.journal_store import JournalStore
from qjm_compat import JournalConfig
from qjm_compat.acceptor.journal import Journal
from qjm_compat.acceptor.unavailable_acceptor import AbsentAcceptor
from qjm_compat.aio import QuorumJournalManager
from qjm_compat.errors import JournalUnavailable
from qjm_compat.requests import Format
from qjm_compat.sync import background as background_module
from qjm_compat.sync.background import BackgroundSync
from qjm_compat.sync.syncer import JournalSyncer
from tests.qjm_compat.acceptor.one_writer import logs, writer_of
from tests.qjm_compat.journals import ACCEPTORS, JOURNAL, NAMESPACE, acceptors_on, on_journal, write_segment
from tests.qjm_compat.model import ModelAcceptor, ModelDisk
from tests.support.aio import until_true
from tests.support.in_process import QUICK, InProcessCluster

SECONDS = 0.01
WARNED = "journal ns1 is not up to date everywhere: acceptor c cannot be read"


async def unpaced(_: int) -> None:
    """As fast as it goes."""


async def two() -> list[ModelAcceptor]:
    """`a` has segment 1-3, `b` lacks it."""
    disks = {name: ModelDisk() for name in ACCEPTORS}
    acceptors = [ModelAcceptor(JOURNAL, name, disks) for name in ("a", "b")]
    for acceptor in acceptors:
        await acceptor.call(Format(NAMESPACE))
    await (await writer_of(acceptors[0], 1)).write_final(1, 3)
    return acceptors


class Rounds:
    """Gives the syncers of each round, and counts them; an error in its turn is raised."""

    def __init__(self, syncer: JournalSyncer, *errors: Exception) -> None:
        self.count = 0
        self._syncer = syncer
        self._errors = list(errors)

    async def __call__(self) -> Mapping[str, JournalSyncer]:
        self.count += 1
        if self._errors:
            raise self._errors.pop(0)
        return {JOURNAL: self._syncer}

    async def reach(self, count: int) -> None:
        await until_true(lambda: self.count >= count)


async def test_what_an_acceptor_lacks_comes_by_itself_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "qjm_compat.sync.background")
    acceptors = await two()
    background = BackgroundSync(SECONDS, Rounds(JournalSyncer(acceptors, unpaced)))
    background.start()

    async def is_there() -> bool:
        return await logs(acceptors[1]) == [(1, 3, False)]

    await until_true(is_there)
    await background.close()
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("journal ns1: 1 segments (")


async def test_what_fails_is_logged_once_in_a_while_and_tried_in_every_round(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = AbsentAcceptor("c", JournalUnavailable("its disk is gone"))
    rounds = Rounds(JournalSyncer([*await two(), away], unpaced))
    background = BackgroundSync(SECONDS, rounds)
    background.start()
    await rounds.reach(5)
    assert len([line for line in caplog.messages if line.startswith(WARNED)]) == 1
    monkeypatch.setattr(background_module, "WARNING_SECONDS_MIN", 0.0)
    await rounds.reach(rounds.count + 3)
    assert len([line for line in caplog.messages if line.startswith(WARNED)]) > 1
    await background.close()


async def test_a_round_that_breaks_off_does_not_end_those_that_follow(
    caplog: pytest.LogCaptureFixture,
) -> None:
    acceptors = await two()
    errors = JournalUnavailable("etcd is away"), RuntimeError("a defect")
    rounds = Rounds(JournalSyncer(acceptors, unpaced), *errors)
    background = BackgroundSync(SECONDS, rounds)
    background.start()
    await rounds.reach(4)
    await background.close()
    assert await logs(acceptors[1]) == [(1, 3, False)]
    assert "journals cannot be synced: etcd is away" in caplog.messages
    (broken,) = [record for record in caplog.records if record.exc_info]
    assert broken.getMessage() == "a round of syncing journals failed"


async def test_closing_ends_a_copy_that_is_under_way() -> None:
    reached = asyncio.Event()

    async def stuck(_: int) -> None:
        reached.set()
        await asyncio.Event().wait()

    acceptors = await two()
    background = BackgroundSync(SECONDS, Rounds(JournalSyncer(acceptors, stuck)))
    background.start()
    background.start()  # once is enough
    await reached.wait()
    await background.close()
    await background.close()
    assert await logs(acceptors[1]) == []
    assert len(asyncio.all_tasks()) == 1


# --- in the process of a writer ---------------------------------------------------------------------------


async def lose(cluster: InProcessCluster, acceptor: str) -> None:
    """Of a segment that all have, this one knows nothing any more."""
    store = JournalStore(cluster.store, JOURNAL, acceptor)
    found = await store.read_state()
    assert found is not None and found.state.storage is not None
    empty = JournalState(storage=found.state.storage, last_promised_epoch=found.state.last_promised_epoch)
    assert await store.swap_state(empty, found.version) is not None
    async for record in store.list_segments():
        await store.delete_segment(record)


def writer_on(cluster: InProcessCluster, seconds: float) -> QuorumJournalManager:
    return QuorumJournalManager(
        cluster.uri,
        JOURNAL,
        acceptors=acceptors_on(cluster.uri, 3),
        config=JournalConfig(sync_interval_seconds=seconds),
        client_config=QUICK,
    )


async def test_a_writer_of_several_acceptors_on_ledgers_has_them_brought_up_to_date(tmp_path: Path) -> None:
    async with on_journal(tmp_path, 3) as (cluster, first):
        await write_segment(first, 1, 3)
        await write_segment(first, 4, 6)

        async def lacks_nothing() -> bool:
            journal = first._journals["c"]
            assert isinstance(journal, Journal)
            return [log.start_txid for log in (await journal.segments_held()).logs] == [1, 4]

        await until_true(lacks_nothing)  # the third may be late
        await lose(cluster, "c")
        async with writer_on(cluster, 0.05) as writer:
            await asyncio.sleep(0)
            await writer.recover_unfinalized_segments()
            await until_true(lacks_nothing)
            await write_segment(writer, 7, 8)


async def test_readers_single_acceptors_and_those_who_said_so_have_no_rounds(tmp_path: Path) -> None:
    async with on_journal(tmp_path, 1) as (cluster, one):
        assert one._syncing is None
        async with writer_on(cluster, 60) as writer:
            await writer.format(NAMESPACE)
            await writer.select_input_streams(0)
            assert writer._syncing is None, "it is no writer yet"
            await writer.recover_unfinalized_segments()
            assert writer._syncing is not None
        async with writer_on(cluster, 0) as writer:
            await writer.recover_unfinalized_segments()
            assert writer._syncing is None
