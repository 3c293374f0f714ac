"""A journal of three acceptors goes on when the cluster of one of them cannot even be opened."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ledgers import LedgerError
from metadata.errors import MetadataError
from qjm_compat import AcceptorConfig, JournalConfig, JournalError, QuorumFailed
from qjm_compat.aio import QuorumJournalManager
from tests.qjm_compat.journals import ACCEPTORS, JOURNAL, NAMESPACE, write, write_segment
from tests.support.in_process import QUICK, InProcessCluster, cluster_of

PATIENT = replace(QUICK, append_seconds_max=60, read_seconds_max=60)
"""Nobody hangs here: an acceptor that is away says so at once."""


def manager_of(uris: list[str]) -> QuorumJournalManager:
    acceptors = [AcceptorConfig(name, uri) for name, uri in zip(ACCEPTORS, uris, strict=True)]
    config = JournalConfig(ensemble_size=1)
    return QuorumJournalManager(
        uris[0], JOURNAL, namespace=NAMESPACE, acceptors=acceptors, config=config, client_config=PATIENT
    )


def gone(path: Path) -> str:
    return f"sqlite://{path}/nothing-here.db"


def damaged(path: Path) -> str:
    (path / "damaged.db").write_bytes(b"this was a database once" * 1000)
    return f"sqlite://{path}/damaged.db"


@asynccontextmanager
async def on_two_clusters(tmp_path: Path) -> AsyncIterator[list[InProcessCluster]]:
    """The first for acceptors a and b, the second for c; the journal ends with segment 1, in progress up to 3."""
    async with AsyncExitStack() as stack:
        clusters = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            clusters.append(await stack.enter_async_context(cluster_of(tmp_path / name, 1)))
        one, two = clusters
        async with manager_of([one.uri, one.uri, two.uri]) as manager:
            await manager.format(NAMESPACE)
            await manager.recover_unfinalized_segments()
            await write(await manager.start_log_segment(1), 3)
        yield clusters


@pytest.mark.parametrize("lost", [gone, damaged])
@pytest.mark.parametrize("place", [0, 2], ids=["first", "last"])
async def test_a_writer_takes_over_writes_and_reads_without_the_acceptor_whose_cluster_is_away(
    tmp_path: Path, lost: Callable[[Path], str], place: int
) -> None:
    async with on_two_clusters(tmp_path) as clusters:
        one, two = clusters
        uris = [one.uri, one.uri, two.uri]
        uris[place] = lost(tmp_path)
        async with manager_of(uris) as manager:
            recovered = await manager.recover_unfinalized_segments()
            assert recovered is not None and recovered.end_txid == 3
            await write_segment(manager, 4, 6)
            streams = await manager.select_input_streams()
            assert [op.txid for stream in streams async for op in stream] == [1, 2, 3, 4, 5, 6]
            edits = await manager.journaled_edits(4)
            assert edits is not None and edits.last_txid == 6
            away = ACCEPTORS[place]
            with pytest.raises(QuorumFailed, match=f"acceptor {away} could not be opened") as refused:
                await manager.is_formatted()
            assert set(refused.value.errors) == {away}
            assert f"Journal-{JOURNAL}-{away}" not in manager.metrics()
            assert f"{away} (Written txid 0" in manager.report()
        async with manager_of([one.uri, one.uri, two.uri]) as manager:  # it is back
            await manager.recover_unfinalized_segments()
            await write_segment(manager, 7, 8)
            streams = await manager.select_input_streams()
            assert [op.txid for stream in streams async for op in stream] == list(range(1, 9))


async def test_where_only_a_minority_can_be_opened_nobody_becomes_the_writer_and_each_reason_is_told(
    tmp_path: Path,
) -> None:
    async with on_two_clusters(tmp_path) as clusters:
        uris = [clusters[0].uri, gone(tmp_path), damaged(tmp_path)]
        with pytest.raises((JournalError, LedgerError), match=r"nothing-here(.|\n)*damaged"):
            async with manager_of(uris) as manager:
                await manager.recover_unfinalized_segments()


async def test_a_journal_of_which_no_cluster_can_be_opened_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises((JournalError, LedgerError, MetadataError), match="nothing-here"):
        async with manager_of([gone(tmp_path)] * 3):
            pytest.fail("nothing is there")
