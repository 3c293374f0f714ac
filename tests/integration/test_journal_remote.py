"""Our journal manager writes to stock JournalNodes, and to stock ones and ours together."""

from __future__ import annotations

from contextlib import ExitStack, aclosing
from pathlib import Path

import pytest

from bookledger.cli.processes import bookie_processes
from qjm_compat.aio import QuorumJournalManager
from qjm_compat.errors import QuorumFailed
from qjm_compat.requests import NamespaceInfo
from tests.qjm_compat.acceptor.one_writer import edits
from tests.qjm_compat.journals import all_edits
from tests.support.aio import run
from tests.support.hadoop import JournalNode, each_version
from tests.support.journal_node_daemons import JournalNodeDaemon, journal_nodes, qjournal

NAMESPACE = NamespaceInfo(7, "CID-x", "BP-1", layout_version=-63)


async def written(manager: QuorumJournalManager, first: int, last: int, epoch: int) -> None:
    out = await manager.start_log_segment(first)
    for txid in range(first, last + 1):
        out.write_raw(edits(txid, txid, epoch), 1)
        out.set_ready_to_flush()
        await out.flush()
    await out.close()


async def there_and_back(uri: str, nodes: list[JournalNode | JournalNodeDaemon]) -> None:
    """Writers die, nodes die, and the edits stay. In a mixed set one of each kind is left: no majority of either."""
    all_stock_or_ours = len({type(node) for node in nodes}) == 1
    async with QuorumJournalManager(uri, namespace=NAMESPACE) as manager:
        assert not await manager.is_formatted()
        await manager.format(NAMESPACE)
        assert await manager.recover_unfinalized_segments() is None
        await written(manager, 1, 3, 1)
        await manager.finalize_log_segment(1, 3)
        await written(manager, 4, 5, 1)
        nodes[0].kill()
        nodes[0].start()
        async with QuorumJournalManager(uri, namespace=NAMESPACE) as rival:
            recovered = await rival.recover_unfinalized_segments()
            assert recovered is not None and (recovered.start_txid, recovered.end_txid) == (4, 5)
            with pytest.raises(QuorumFailed):
                await manager.finalize_log_segment(4, 5)
            nodes[1].kill()
            await written(rival, 6, 8, 2)
            await rival.finalize_log_segment(6, 8)
            assert await all_edits(rival) == edits(1, 5, 1) + edits(6, 8, 2)
            async with aclosing(rival.tail(2)) as following:
                assert [(await anext(following)).txid for _ in range(7)] == list(range(2, 9))
                await written(rival, 9, 10, 2)
                if all_stock_or_ours:
                    assert [(await anext(following)).txid for _ in range(2)] == [9, 10]


@pytest.mark.long
@each_version
def test_stock_journal_nodes_keep_what_our_manager_writes(version: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        nodes: list[JournalNode | JournalNodeDaemon] = [
            stack.enter_context(JournalNode(version, tmp_path / f"stock{n}")) for n in range(3)
        ]
        run(there_and_back(qjournal([n.address for n in nodes]), nodes))


@pytest.mark.long
@each_version
@pytest.mark.parametrize("first", ["stock", "ours"])
def test_stock_nodes_and_ours_are_one_journal(version: str, first: str, tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    with ExitStack() as stack:
        stack.enter_context(bookie_processes(3, tmp_path, uri))
        stock = stack.enter_context(JournalNode(version, tmp_path / "stock"))
        peer = f"127.0.0.1:{stock.http_port}"
        ours = stack.enter_context(journal_nodes(uri, tmp_path, 2, "--peer", peer))
        nodes: list[JournalNode | JournalNodeDaemon] = [stock, *ours] if first == "stock" else [*ours, stock]
        run(there_and_back(qjournal([n.address for n in nodes]), nodes))


def test_our_daemons_keep_what_our_manager_writes(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    with bookie_processes(3, tmp_path, uri), journal_nodes(uri, tmp_path) as ours:
        nodes: list[JournalNode | JournalNodeDaemon] = [*ours]
        run(there_and_back(qjournal([n.address for n in nodes]), nodes))
