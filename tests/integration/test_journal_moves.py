"""A pair of NameNodes that serves all the time moves from stock JournalNodes to ours, and back: docs/journals.md."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from bookledger.cli.processes import bookie_processes
from tests.support.command_line import succeeds
from tests.support.hadoop import JournalNode, each_version
from tests.support.hadoop.driver import needs_compiler
from tests.support.hadoop.pair import SERVICE, Pair, running_pair
from tests.support.hadoop.segments import check_served_segments
from tests.support.journal_node_daemons import JournalNodeDaemon, qjournal
from tests.support.waiting import until

pytestmark = [pytest.mark.long, needs_compiler]

OPERATIONS_BETWEEN = 10
ACCEPTORS = ("--acceptor=jn1", "--acceptor=jn2", "--acceptor=jn3")
OFTEN_CHECKPOINTS = {"dfs.namenode.checkpoint.txns": "1", "dfs.namenode.checkpoint.check.period": "1"}
Node = JournalNode | JournalNodeDaemon


def done(*arguments: str) -> None:
    succeeds("journal", *arguments)


def use(pair: Pair, nodes: Sequence[Node]) -> None:
    """Both NameNodes come to keep their edits at these: the standby first, which then takes over."""
    shared = qjournal([node.address for node in nodes], SERVICE)
    for _ in range(2):
        standby = pair.nodes[pair.standby]
        standby.stop()
        standby.settings["dfs.namenode.shared.edits.dir"] = shared
        standby.start()
        pair.fail_over()
    enough = pair.driver.operations() + OPERATIONS_BETWEEN
    until(lambda: pair.driver.operations() >= enough)


def replace(pair: Pair, nodes: list[Node], joining: Sequence[Node]) -> None:
    """One joins, one leaves, in turns: so any majority before a change meets any majority after it.

    Before the last one leaves both NameNodes make a checkpoint: what was written between two joins some of the new
    ones lack.
    """
    for number, one in enumerate(joining, 1):
        use(pair, [*nodes, one])
        if number == len(joining):
            await_checkpoints(pair)
        leaving = nodes.pop(0)
        nodes.append(one)
        use(pair, nodes)
        leaving.stop()


def await_checkpoints(pair: Pair) -> None:
    """Of all that is written by now: a standby takes it in once its segment is finalized."""
    now = pair.nodes[pair.active].last_txid()
    pair.driver.admin("-rollEdits")
    until(lambda: all(node.checkpoint_txid() >= now for node in pair.nodes.values()))


def copy_to_ours(stock: JournalNode, uri: str, copy: Path) -> None:
    """What is finalized, as it stands in the directory of a JournalNode that is at work."""
    copy.mkdir()
    current = stock.current(SERVICE)
    for file in [current / "VERSION", *current.glob("edits_[0-9]*-*[0-9]")]:
        shutil.copy(file, copy)
    done("import", SERVICE, str(copy), "--metadata", uri, *ACCEPTORS)


def copy_to_stock(stock: JournalNode, uri: str) -> None:
    """Into the directory that it left behind, whose edits are old by now; its promises stay."""
    target = stock.current(SERVICE)
    for left in [*target.glob("edits_*"), *target.glob("committed-txid"), *target.glob("paxos/*")]:
        left.unlink()
    done("export", SERVICE, str(target), "--metadata", uri, *ACCEPTORS)


@pytest.mark.timeout(1500)
@each_version
def test_a_pair_at_work_moves_from_stock_journal_nodes_to_ours_and_back(version: str, tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    with ExitStack() as stack:
        stack.enter_context(bookie_processes(3, tmp_path, uri))
        stock = [stack.enter_context(JournalNode(version, tmp_path / f"stock{n}")) for n in range(3)]
        shared = qjournal([node.address for node in stock], SERVICE)
        pair = stack.enter_context(running_pair(version, tmp_path, shared, OFTEN_CHECKPOINTS))
        pair.driver.begin_load(1)
        nodes: list[Node] = [*stock]

        pair.driver.admin("-rollEdits")
        copy_to_ours(stock[-1], uri, tmp_path / "copy")
        peers = [f"--peer=127.0.0.1:{node.http_port}" for node in stock]
        ours = [stack.enter_context(JournalNodeDaemon(uri, f"jn{n}", tmp_path, *peers)) for n in (1, 2, 3)]
        replace(pair, nodes, ours)
        assert nodes == ours
        first, last = check_served_segments(pair.driver, ours, SERVICE, tmp_path)
        assert first == 1 and last > 3 * OPERATIONS_BETWEEN

        pair.driver.admin("-rollEdits")
        for node in stock:
            copy_to_stock(node, uri)
            node.start()
        replace(pair, nodes, stock)
        assert nodes == stock

        expected = pair.driver.end_load()
        for _ in range(2):
            assert pair.driver.paths() == expected
            pair.fail_over_dead()
