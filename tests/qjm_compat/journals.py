"""Journals for tests: edits that say whose they are, and managers on given bookies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from ledgers import ClientConfig
from qjm_compat import AcceptorConfig, JournalConfig, NamespaceInfo
from qjm_compat.aio import QuorumJournalManager
from qjm_compat.edits import encode_op
from qjm_compat.edits.fields.permissions import Permission
from qjm_compat.edits.ops.namespace import Mkdir
from qjm_compat.manager.output_stream import EditLogOutputStream
from tests.support.in_process import QUICK, InProcessCluster, cluster_of

NAMESPACE = NamespaceInfo(12345, "CID-test")
LAYOUT = NAMESPACE.layout_version
NOON_MS = 1_700_000_000_000
JOURNAL = "ns1"
ACCEPTORS = ("a", "b", "c")
SOON = 0.05
"""How long what must not happen is given to happen."""


def mkdir(txid: int, path: str) -> Mkdir:
    return Mkdir(
        txid=txid,
        inode_id=16386 + txid,
        path=path,
        mtime_ms=NOON_MS + txid,
        atime_ms=NOON_MS + txid,
        permission=Permission("ada", "staff", 0o750),
    )


def frames(first_txid: int, count: int, by: str = "w", path_bytes: int = 0) -> bytes:
    """So many directories made by one writer; each txid has bytes of its own."""
    ops = (
        mkdir(txid, f"/{by}/{txid}".ljust(path_bytes, "x")) for txid in range(first_txid, first_txid + count)
    )
    return b"".join(encode_op(op, LAYOUT) for op in ops)


def acceptors_on(uri: str, count: int) -> list[AcceptorConfig] | None:
    """One acceptor, the default, or several that share a cluster."""
    return None if count == 1 else [AcceptorConfig(name, uri) for name in ACCEPTORS[:count]]


def manager_on(
    uri: str,
    acceptors: int = 1,
    *,
    config: JournalConfig | None = None,
    client_config: ClientConfig = QUICK,
    journal_id: str = JOURNAL,
) -> QuorumJournalManager:
    return QuorumJournalManager(
        uri, journal_id, acceptors=acceptors_on(uri, acceptors), config=config, client_config=client_config
    )


@asynccontextmanager
async def on_journal(
    tmp_path: Path, acceptors: int, *, config: JournalConfig | None = None, bookies: int = 3
) -> AsyncIterator[tuple[InProcessCluster, QuorumJournalManager]]:
    """The writer of a new journal, on so many bookies of the test's own loop."""
    async with (
        cluster_of(tmp_path, bookies) as cluster,
        manager_on(cluster.uri, acceptors, config=config) as manager,
    ):
        await manager.format(NAMESPACE)
        await manager.recover_unfinalized_segments()
        yield cluster, manager


async def send(out: EditLogOutputStream) -> asyncio.Future[int]:
    """The flush of one edit, under way."""
    out.write_raw(frames(out.next_txid, 1), 1)
    out.set_ready_to_flush()
    return await out.flush_async()


async def write(out: EditLogOutputStream, count: int = 1, by: str = "w") -> int:
    """One flush of so many edits; the last txid on a quorum."""
    out.write_raw(frames(out.next_txid, count, by), count)
    out.set_ready_to_flush()
    return await out.flush()


async def write_segment(
    manager: QuorumJournalManager, first_txid: int, last_txid: int, by: str = "w"
) -> None:
    """A finalized segment, written in one flush."""
    async with await manager.start_log_segment(first_txid) as out:
        await write(out, last_txid - first_txid + 1, by)
    await manager.finalize_log_segment(first_txid, last_txid)


async def all_edits(manager: QuorumJournalManager) -> bytes:
    """Those of finalized segments, in order."""
    found: list[bytes] = []
    for stream in await manager.select_input_streams():
        async with aclosing(stream.batches()) as batches:
            found += [batch.records async for batch in batches]
    return b"".join(found)
