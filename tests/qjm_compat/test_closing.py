"""Closing a manager that takes long says which segment waits for whom."""

from __future__ import annotations

import re
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from qjm_compat import AcceptorConfig, JournalConfig
from qjm_compat.aio import QuorumJournalManager
from tests.qjm_compat.journals import JOURNAL, NAMESPACE, frames, write
from tests.support.in_process import InProcessCluster, cluster_of

NAMES = ("a", "b", "c")


async def begun(clusters: list[InProcessCluster]) -> QuorumJournalManager:
    """A writer over one cluster for each acceptor, in the middle of segment 1."""
    acceptors = [AcceptorConfig(name, one.uri) for name, one in zip(NAMES, clusters, strict=True)]
    config = JournalConfig(ensemble_size=1, sync_interval_seconds=0)
    manager = QuorumJournalManager(clusters[0].uri, JOURNAL, acceptors=acceptors, config=config)
    await manager.connect()
    await manager.format(NAMESPACE)
    await manager.recover_unfinalized_segments()
    await write(await manager.start_log_segment(1), 3)
    return manager


async def test_the_acceptor_that_does_not_answer_is_named_with_its_segment(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with AsyncExitStack() as stack:
        clusters = []
        for name in NAMES:
            (tmp_path / name).mkdir()
            clusters.append(await stack.enter_async_context(cluster_of(tmp_path / name, 1)))
        manager = await begun(clusters)
        await clusters[2].stop("b1")
        stream = manager._stream
        assert stream is not None
        stream.write_raw(frames(4, 2), 2)
        stream.set_ready_to_flush()
        assert await stream.flush() == 5  # the other two have it
        await manager.close()
    (line,) = [
        line for line in caplog.messages if line.startswith("closing ")
    ]  # and none about the ledger itself
    assert re.fullmatch(
        r"closing journal ns1 is waiting for acceptor c to close segment 1 in ledger \d+; "
        r"the next writer ends open segments",
        line,
    )
