"""Real NameNodes over three daemons and three bookies: one bookie dead, hung or full (W9), or the metadata away."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from signal import SIGCONT

import pytest

from bookledger.cli.processes import BookieProcess, started
from tests.support.etcd import EtcdServer
from tests.support.hadoop import NameNode, dfsadmin, each_version, fs
from tests.support.hadoop.driver import needs_compiler
from tests.support.hadoop.pair import running_pair
from tests.support.hadoop.segments import check_served_segments
from tests.support.journal_node_daemons import JournalNodeDaemon, journal_nodes, qjournal
from tests.support.mounts import small_disk
from tests.support.processes import pause
from tests.support.waiting import until

pytestmark = pytest.mark.long

ROLLS = 10
LEASE_SECONDS = 2.0
SMALL_DISK = "400m"

Outage = Callable[[list[BookieProcess]], None]


def killed(bookies: list[BookieProcess]) -> None:
    bookies[1].kill()


def hung(bookies: list[BookieProcess]) -> None:
    """It hangs before its lease has run out, and after."""
    pause(bookies[1])


def full(bookies: list[BookieProcess]) -> None:
    """Another program takes the rest of its disk."""
    with (
        (bookies[1].directory.parent / "taken").open("wb") as taken,
        pytest.raises(OSError, match="No space"),
    ):
        while True:
            taken.write(bytes(1024 * 1024))
            taken.flush()


each_outage = pytest.mark.parametrize("outage", [killed, hung, full], ids=lambda outage: outage.__name__)


@contextmanager
def cluster(tmp_path: Path, uri: str) -> Iterator[tuple[list[BookieProcess], list[JournalNodeDaemon]]]:
    """Three bookies, the second one on a small disk of its own, and three daemons."""
    with ExitStack() as stack:
        places = [tmp_path, stack.enter_context(small_disk(SMALL_DISK)), tmp_path]
        bookies = [
            BookieProcess(f"bookie-{n}", place / f"bookie-{n}", uri, lease_seconds=LEASE_SECONDS)
            for n, place in enumerate(places, 1)
        ]
        stack.enter_context(started(bookies))
        stack.callback(go_on, bookies)
        yield bookies, stack.enter_context(journal_nodes(uri, tmp_path))


def go_on(bookies: list[BookieProcess]) -> None:
    """So that what hangs can be stopped."""
    for bookie in bookies:
        if bookie.child.is_alive:
            bookie.child.signal(SIGCONT)


def rolled(node: NameNode, name: str) -> list[str]:
    """What was made between as many rolls."""
    made = [f"/{name}-{n}" for n in range(ROLLS)]
    for path in made:
        fs(node, "-mkdir", path)
        dfsadmin(node, "-rollEdits")
    return made


def directories(node: NameNode) -> set[str]:
    return {line.split()[-1] for line in fs(node, "-ls", "/").splitlines() if "/" in line}


@each_version
@each_outage
def test_a_name_node_alone_rolls_and_restarts_without_one_bookie_of_three(
    version: str, outage: Outage, tmp_path: Path
) -> None:
    with cluster(tmp_path, f"sqlite://{tmp_path}/metadata.db") as (bookies, nodes):
        edits = qjournal([node.address for node in nodes], "alone")
        with NameNode(version, tmp_path / "nn", edits_dir=edits) as node:
            fs(node, "-mkdir", "/before")
            outage(bookies)
            made = rolled(node, "without")
            node.kill()
            node.start()
            made += rolled(node, "restarted")
            assert directories(node) == {"/before", *made}


@needs_compiler
@each_version
@each_outage
def test_a_pair_under_load_rolls_and_fails_over_without_one_bookie_of_three(
    version: str, outage: Outage, tmp_path: Path
) -> None:
    with cluster(tmp_path, f"sqlite://{tmp_path}/metadata.db") as (bookies, nodes):
        shared = qjournal([node.address for node in nodes], "pair")
        with running_pair(version, tmp_path, shared) as pair:
            pair.driver.begin_load(2)
            outage(bookies)
            for fail_over in (pair.fail_over_dead, pair.fail_over):
                for _ in range(ROLLS):
                    enough = pair.driver.operations() + 5
                    until(lambda enough=enough: pair.driver.operations() >= enough)  # type: ignore[misc]
                    pair.driver.admin("-rollEdits")
                fail_over()
            expected = pair.driver.end_load()
            assert pair.driver.paths() == expected
            pair.fail_over()
            assert pair.driver.paths() == expected, "of the other one, too"
            check_served_segments(pair.driver, nodes, "pair", tmp_path)


class Away:
    """Takes the metadata away for so long, beside the test."""

    def __init__(self, seconds: float, leave: Callable[[], object], come_back: Callable[[], object]) -> None:
        leave()
        self._timer = threading.Timer(seconds, come_back)
        self._timer.start()

    def is_over(self) -> None:
        self._timer.join()


def sqlite_away(path: Path, seconds: float) -> Away:
    aside = path.with_name("aside")
    return Away(seconds, lambda: path.rename(aside), lambda: aside.rename(path))


def etcd_away(etcd: EtcdServer, seconds: float) -> Away:
    """It hangs: leases run out meanwhile, where a restart would give them their whole time again."""
    return Away(seconds, etcd.hang, etcd.go_on)


@each_version
@pytest.mark.parametrize("seconds", [6, 12, 40])
@pytest.mark.parametrize("store", ["sqlite", "etcd"])
def test_a_name_node_rolls_over_an_outage_of_the_metadata_that_is_longer_than_the_leases(
    version: str, seconds: int, store: str, own_etcd: EtcdServer, tmp_path: Path
) -> None:
    database = tmp_path / "metadata.db"
    uri = f"sqlite://{database}" if store == "sqlite" else f"etcd://{own_etcd.endpoint}/hosts"
    with cluster(tmp_path, uri) as (_, nodes):
        edits = qjournal([node.address for node in nodes], "alone")
        with NameNode(version, tmp_path / "nn", edits_dir=edits) as node:
            fs(node, "-mkdir", "/before")
            away = sqlite_away(database, seconds) if store == "sqlite" else etcd_away(own_etcd, seconds)
            fs(node, "-mkdir", "/meanwhile")
            dfsadmin(node, "-rollEdits")
            away.is_over()
            made = rolled(node, "after")
            assert directories(node) == {"/before", "/meanwhile", *made}
