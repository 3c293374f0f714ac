"""A pair of real NameNodes shares its edits at our JournalNodes: one fails, the other goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from bookledger.cli.processes import bookie_processes
from tests.support.hadoop import HadoopFailed, NameNode, dfsadmin, each_version, fs
from tests.support.hadoop.driver import needs_compiler
from tests.support.hadoop.jars import skip_without
from tests.support.hadoop.pair import Pair, made_pair, running_pair, started
from tests.support.hadoop.segments import check_served_segments
from tests.support.journal_node_daemons import JournalNodeDaemon, journal_nodes, qjournal
from tests.support.waiting import until

pytestmark = [pytest.mark.long, needs_compiler]

TAKEOVERS = 50
OPERATIONS_BETWEEN = 20
"""Acknowledged by whoever is active, before the next one takes over."""

OFTEN_CHECKPOINTS = {
    "dfs.namenode.checkpoint.txns": "400",
    "dfs.namenode.checkpoint.check.period": "1",
    "dfs.namenode.num.checkpoints.retained": "1",
    "dfs.namenode.num.extra.edits.retained": "500",
    "dfs.namenode.max.extra.edits.segments.retained": "10",
}


@contextmanager
def pair_at(
    version: str, tmp_path: Path, settings: dict[str, str] | None = None
) -> Iterator[tuple[Pair, list[JournalNodeDaemon]]]:
    uri = f"sqlite://{tmp_path}/metadata.db"
    with bookie_processes(3, tmp_path, uri), journal_nodes(uri, tmp_path) as nodes:
        shared = qjournal([n.address for n in nodes], "pair")
        with running_pair(version, tmp_path, shared, settings) as pair:
            yield pair, nodes


def await_operations(pair: Pair, count: int) -> None:
    enough = pair.driver.operations() + count
    until(lambda: pair.driver.operations() >= enough)


@each_version
def test_what_one_name_node_wrote_is_there_when_the_other_takes_over(version: str, tmp_path: Path) -> None:
    with pair_at(version, tmp_path) as (pair, _):
        made = []
        for turn in range(4):
            made.append(f"/{turn}")
            pair.driver.shell("-mkdir", made[-1])
            (pair.fail_over_dead if turn % 2 else pair.fail_over)()
            assert pair.driver.paths() == made


@pytest.mark.timeout(1500)
@each_version
def test_nothing_acknowledged_is_lost_in_fifty_takeovers_under_load(version: str, tmp_path: Path) -> None:
    """In turns the active one dies, and stands back; a standby makes checkpoints, and old edits are purged."""
    with pair_at(version, tmp_path, OFTEN_CHECKPOINTS) as (pair, nodes):
        pair.driver.begin_load(2)
        for turn in range(TAKEOVERS):
            await_operations(pair, OPERATIONS_BETWEEN)
            (pair.fail_over_dead if turn % 2 else pair.fail_over)()
        expected = pair.driver.end_load()
        assert len(expected) > TAKEOVERS
        first, last = check_served_segments(pair.driver, nodes, "pair", tmp_path)
        assert first > 1, "nothing was purged"
        assert last >= TAKEOVERS * OPERATIONS_BETWEEN
        namespaces = []
        for _ in range(2):
            namespaces.append(pair.driver.paths())
            pair.fail_over()
        assert namespaces == [expected, expected]


@each_version
def test_a_name_node_that_was_overtaken_ends_with_its_next_edit(version: str, tmp_path: Path) -> None:
    """Both take themselves for the active one: the edits of the first are refused."""
    with pair_at(version, tmp_path) as (pair, _):
        first = pair.nodes[pair.active]
        pair.driver.shell("-mkdir", "/before")
        pair.make_active(pair.standby)
        with pytest.raises(HadoopFailed):
            fs(first, "-mkdir", f"hdfs://{first.address}/lost")
        assert first.await_exit() == 1
        assert pair.driver.paths() == ["/before"]


@each_version
def test_a_name_node_alone_shares_its_edits_from_then_on(version: str, tmp_path: Path) -> None:
    """initializeSharedEdits, once, and with force once more; then a second NameNode joins."""
    uri = f"sqlite://{tmp_path}/metadata.db"
    with ExitStack() as stack:
        stack.enter_context(bookie_processes(3, tmp_path, uri))
        nodes = stack.enter_context(journal_nodes(uri, tmp_path))
        pair = made_pair(version, tmp_path, qjournal([n.address for n in nodes], "shared"))
        alone = NameNode(version, pair["nn1"].directory, (pair["nn1"].port, pair["nn1"].http_port))
        with alone:
            fs(alone, "-mkdir", "-p", "/alone/x")
            dfsadmin(alone, "-rollEdits")
            fs(alone, "-mkdir", "/alone/y")
        for force in ((), ("-force",)):
            pair["nn1"].command("-initializeSharedEdits", "-nonInteractive", *force)
        running = stack.enter_context(started(pair, tmp_path))
        expected = ["/alone", "/alone/x", "/alone/y"]
        assert running.driver.paths() == expected
        running.fail_over_dead()
        running.driver.shell("-mkdir", "/together")
        running.fail_over()
        assert running.driver.paths() == [*expected, "/together"]
        check_served_segments(running.driver, nodes, "shared", tmp_path)


@pytest.mark.parametrize("version", [pytest.param("3.4.1", marks=skip_without("3.4.1"))])
def test_a_standby_sees_edits_of_a_segment_in_progress(version: str, tmp_path: Path) -> None:
    """Hadoop of 2.7 has no such standby. One of our nodes is away, and comes back with less than the others."""
    with pair_at(version, tmp_path, {"dfs.ha.tail-edits.in-progress": "true"}) as (pair, nodes):
        for turn in range(3):
            nodes[turn].kill()
            pair.driver.shell("-mkdir", f"/{turn}")
            pair.await_standby()
            nodes[turn].start()
            pair.driver.shell("-mkdir", f"/{turn}/again")
            pair.await_standby()
            pair.driver.admin("-rollEdits")
        pair.driver.shell("-mkdir", "/last")
        pair.await_standby()
        (first, _) = check_served_segments(pair.driver, nodes, "pair", tmp_path)
        assert first == 1
        expected = pair.driver.paths()
        pair.fail_over_dead()
        assert pair.driver.paths() == expected
        pair.driver.shell("-mkdir", "/after")
        pair.await_standby()
