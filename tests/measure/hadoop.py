"""Hadoop's own writer of edits over three stock JournalNodes and over three of our daemons, in turns on one machine.

ours, one copy each    three daemons, each with its edits on one bookie of three: as many copies as stock ones make
ours, in the bookies   three bookies, each with its own JournalNode in its process and its edits on itself: three copies
ours, three copies     three daemons on the same bookies with the usual ensemble: nine copies
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from bookledger.cli.processes import bookie_processes, started
from tests.interop.running import VERSION, compiled, missing
from tests.support.hadoop.daemons import JournalNode
from tests.support.hadoop.jars import java
from tests.support.journal_node_daemons import BookieWithNode, journal_nodes, qjournal
from tests.support.waiting import until

ROUNDS = 3
SECONDS = 6.0
FULL_SPEED = ("-XX:TieredStopAtLevel=4", "-XX:-UseSerialGC", "-XX:+UseG1GC", "-Xmx1g")
"""What the tests' Java does without, to start sooner."""

ONE_COPY = ("--ensemble", "1", "--write-quorum", "1", "--ack-quorum", "1")
STOCK, ONE_EACH, IN_BOOKIES = "stock", "ours, one copy each", "ours, in the bookies"
Figures = dict[str, list[float]]


class QuickJournalNode(JournalNode):
    """A stock one with Java's usual compiler and collector."""

    java_flags = FULL_SPEED


async def measure(scratch: Path, share: float) -> None:
    why = missing()
    if why is not None:
        print(why, flush=True)
        return
    classes = compiled(scratch / "classes", Path(__file__).parent / "java" / "hadoop")
    measured: dict[str, Figures] = {name: {} for name in (STOCK, ONE_EACH, IN_BOOKIES, "ours, three copies")}
    for number in range(ROUNDS):
        for name, figures in measured.items():
            directory = scratch / f"{number}-{name.replace(' ', '-').replace(',', '')}"
            directory.mkdir()
            with _nodes(name, directory) as addresses:
                for what, value in _told(classes, qjournal(addresses), SECONDS * share, directory):
                    figures.setdefault(what, []).append(value)
            shutil.rmtree(directory)  # some gigabytes
    _print(measured)


@contextmanager
def _nodes(name: str, directory: Path) -> Iterator[list[str]]:
    with ExitStack() as stack:
        if name == STOCK:
            stock = [QuickJournalNode(VERSION, directory / f"jn{n}") for n in range(1, 4)]
            for node in stock:
                node.directory.mkdir()
                stack.enter_context(node)
            yield [node.address for node in stock]
            return
        uri = f"sqlite://{directory}/metadata.db"
        if name == IN_BOOKIES:
            bookies = [BookieWithNode(f"b{n}", directory / f"b{n}", uri) for n in range(1, 4)]
            stack.enter_context(started(bookies))
            until(lambda: all(bookie.serves for bookie in bookies))
            yield [bookie.rpc for bookie in bookies]
            return
        stack.enter_context(bookie_processes(3, directory, uri))
        shape = ONE_COPY if name == ONE_EACH else ()
        ours = stack.enter_context(journal_nodes(uri, directory, 3, *shape))
        yield [node.address for node in ours]


def _told(classes: Path, uri: str, seconds: float, directory: Path) -> Iterator[tuple[str, float]]:
    command = java(
        VERSION, "Flushes", uri, str(seconds), configuration=classes, tmp=directory, flags=FULL_SPEED
    )
    with (directory / "writer.log").open("wb") as log:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=log, check=True, text=True)
    for line in done.stdout.splitlines():
        if "\t" in line and not line.startswith(("warm up", "left open")):
            what, value = line.split("\t")
            yield what, float(value)


def _print(measured: dict[str, Figures]) -> None:
    stock = measured[STOCK]
    for what, values in stock.items():
        told = [f"{what}: {STOCK} {median(values):.2f}"]
        for name, figures in measured.items():
            if name != STOCK:
                ratio = median(ours / theirs for ours, theirs in zip(figures[what], values, strict=True))
                told.append(f"{name} {median(figures[what]):.2f} ({ratio:.2f} of it)")
        print("; ".join(told), flush=True)
