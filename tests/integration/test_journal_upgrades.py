"""Pairs of real NameNodes upgrade, finalize and roll back with their edits at our JournalNodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bookledger.cli.processes import bookie_processes
from tests.support.hadoop import each_version
from tests.support.hadoop.driver import needs_compiler
from tests.support.hadoop.jars import needs_hadoop
from tests.support.hadoop.pair import SERVICE, Pair, running_pair
from tests.support.hadoop.segments import check_served_segments
from tests.support.journal_node_daemons import JournalNodeDaemon, journal_nodes, qjournal
from tests.support.waiting import until

pytestmark = [pytest.mark.long, needs_compiler]

YES = "Y\n"
OLD, NEW = "2.7.3", "3.4.1"


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[JournalNodeDaemon]]:
    uri = f"sqlite://{tmp_path}/metadata.db"
    with bookie_processes(3, tmp_path, uri), journal_nodes(uri, tmp_path) as nodes:
        yield nodes


def shared(nodes: list[JournalNodeDaemon]) -> str:
    return qjournal([n.address for n in nodes], SERVICE)


def start_alone(pair: Pair, *arguments: str) -> None:
    """The first NameNode, with such arguments, becomes the active one. The other one is down."""
    node = pair.nodes["nn1"]
    node.arguments = arguments
    node.start()
    node.arguments = ()
    pair.make_active("nn1")


def join(pair: Pair) -> None:
    """The second NameNode takes the first one's image, and stands by."""
    pair.nodes["nn2"].bootstrap()
    pair.nodes["nn2"].start()


def stop(pair: Pair) -> None:
    for node in pair.nodes.values():
        node.stop()


def run_version(pair: Pair, version: str) -> None:
    for node in pair.nodes.values():
        node.version = version


def upgrade_and_roll_back(pair: Pair, old: str, new: str) -> None:
    """Twice: what came after the upgrade is gone, and the pair goes on."""
    for turn in range(2):
        pair.driver.shell("-mkdir", f"/before-{turn}")
        kept = pair.driver.paths()
        stop(pair)
        run_version(pair, new)
        start_alone(pair, "-upgrade")
        pair.driver.shell("-mkdir", "/upgraded")
        join(pair)
        pair.fail_over()
        assert pair.driver.paths() == sorted([*kept, "/upgraded"])
        stop(pair)
        run_version(pair, old)
        pair.nodes["nn1"].command("-rollback", said=YES)
        start_alone(pair)
        assert pair.driver.paths() == kept
        join(pair)
        pair.fail_over()
        assert pair.driver.paths() == kept
        pair.fail_over()


def upgrade_and_finalize(pair: Pair, new: str) -> None:
    """What was restarted in between, daemons and NameNodes, goes on."""
    pair.driver.shell("-mkdir", "/to-stay")
    kept = pair.driver.paths()
    stop(pair)
    run_version(pair, new)
    start_alone(pair, "-upgrade")
    pair.driver.shell("-mkdir", "/upgraded")
    join(pair)
    pair.fail_over_dead()
    pair.driver.admin("-finalizeUpgrade")
    pair.driver.shell("-mkdir", "/finalized")
    pair.fail_over()
    assert pair.driver.paths() == sorted([*kept, "/upgraded", "/finalized"])


@each_version
def test_a_pair_upgrades_rolls_back_and_finalizes(
    version: str, nodes: list[JournalNodeDaemon], tmp_path: Path
) -> None:
    with running_pair(version, tmp_path, shared(nodes)) as pair:
        upgrade_and_roll_back(pair, version, version)
        upgrade_and_finalize(pair, version)
        check_served_segments(pair.driver, nodes, SERVICE, tmp_path)


@needs_hadoop
def test_a_pair_goes_from_2_7_to_3_4_and_back_and_to_3_4_for_good(
    nodes: list[JournalNodeDaemon], tmp_path: Path
) -> None:
    """Another layout of the edits, under the same journal."""
    with running_pair(OLD, tmp_path, shared(nodes)) as pair:
        upgrade_and_roll_back(pair, OLD, NEW)
        upgrade_and_finalize(pair, NEW)


def prepare_rolling(pair: Pair) -> None:
    """Returns when there is an image to roll back to."""
    pair.driver.admin("-rollingUpgrade", "prepare")
    until(lambda: "Proceed with rolling upgrade" in pair.driver.admin("-rollingUpgrade", "query"))


def restart(pair: Pair, name: str, version: str, *arguments: str) -> None:
    node = pair.nodes[name]
    node.stop()
    node.version, node.arguments = version, arguments
    node.start()
    node.arguments = ()


def roll(pair: Pair, version: str) -> None:
    """Both are replaced, the standby first, while the other one serves."""
    for _ in range(2):
        restart(pair, pair.standby, version, "-rollingUpgrade", "started")
        pair.fail_over()


@each_version
def test_a_rolling_upgrade_is_finalized_and_one_is_rolled_back(
    version: str, nodes: list[JournalNodeDaemon], tmp_path: Path
) -> None:
    with running_pair(version, tmp_path, shared(nodes)) as pair:
        pair.driver.shell("-mkdir", "/before")
        prepare_rolling(pair)
        pair.driver.shell("-mkdir", "/meanwhile")
        roll(pair, version)
        pair.driver.admin("-rollingUpgrade", "finalize")
        assert pair.driver.paths() == ["/before", "/meanwhile"]

        prepare_rolling(pair)
        pair.driver.shell("-mkdir", "/rolled-back")
        roll(pair, version)
        pair.driver.shell("-mkdir", "/rolled-back-too")
        stop(pair)
        start_alone(pair, "-rollingUpgrade", "rollback")
        assert pair.driver.paths() == ["/before", "/meanwhile"]
        pair.driver.shell("-mkdir", "/after")
        join(pair)
        pair.fail_over_dead()
        assert pair.driver.paths() == ["/after", "/before", "/meanwhile"]
        check_served_segments(pair.driver, nodes, SERVICE, tmp_path)


@needs_hadoop
def test_a_rolling_upgrade_goes_from_2_7_to_3_4(nodes: list[JournalNodeDaemon], tmp_path: Path) -> None:
    """The one of 3.4 writes the layout of 2.7 until the upgrade is finalized."""
    with running_pair(OLD, tmp_path, shared(nodes)) as pair:
        pair.driver.shell("-mkdir", "/before")
        prepare_rolling(pair)
        pair.driver.shell("-mkdir", "/meanwhile")
        roll(pair, NEW)
        pair.driver.shell("-mkdir", "/rolled")
        pair.driver.admin("-rollingUpgrade", "finalize")
        pair.driver.shell("-mkdir", "/finalized")
        pair.fail_over_dead()
        assert pair.driver.paths() == ["/before", "/finalized", "/meanwhile", "/rolled"]
