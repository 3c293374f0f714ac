"""`bookledger demo`: a file goes through a dying bookie and two dying writers, and comes back whole.

All processes are real and the signals are SIGKILL and SIGSTOP. The writer says what was confirmed,
with its SHA-256, before it is killed; everything is read back and compared with that and the file.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from ledgers import LedgerClient

from .output import json_option, print_json, print_table, progress
from .processes import BookieProcess, Child, ChildFailed, bookie_processes

FIRST_PAUSE = 0.3
"""Share of the file after which a bookie is killed."""

SECOND_PAUSE = 0.8
"""Share of the file after which the writer is killed."""

STALE_WRITER_BYTES = 64 * 1024


@dataclass(slots=True)
class Findings:
    """What the demo measured and found wrong."""

    measured: dict[str, Any] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def expect(self, holds: bool, what: str) -> None:
        if not holds:
            self.wrong.append(what)


def default_file() -> Path:
    """A real file that every machine with this program has: the largest of Python and of gRPC's library."""
    library = importlib.import_module("grpc._cython.cygrpc").__file__
    candidates = (os.path.realpath(sys.executable), str(library))
    return Path(max(candidates, key=os.path.getsize))


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False), default=default_file)
@click.option("--metadata", "metadata_uri", metavar="URI", help="Use this store instead of an embedded one.")
@click.option("--bookies", default=4, type=click.IntRange(4, 32), show_default=True)
@click.option("--record-bytes", default=4096, type=click.IntRange(1, 1024 * 1024), show_default=True)
@json_option
def demo(file: Path, metadata_uri: str | None, bookies: int, record_bytes: int, as_json: bool) -> None:
    """Store FILE through the death of a bookie and of its writer, and prove that nothing is lost."""
    size = file.stat().st_size
    if size < 10 * record_bytes:
        raise ValueError(
            f"{file} is too small to lose something in: give a file of at least {10 * record_bytes} bytes"
        )
    findings = Findings()
    with tempfile.TemporaryDirectory(prefix="bookledger-demo-") as directory:
        uri = metadata_uri or f"sqlite://{directory}/metadata.db"
        say(as_json, f"{file} ({size:,} bytes) in records of {record_bytes} bytes; metadata in {uri}")
        prefix = f"demo-{os.getpid()}-bookie"
        with bookie_processes(bookies, Path(directory), uri, prefix=prefix) as running:
            say(
                as_json,
                f"started {bookies} bookies, each a process: {', '.join(b.bookie_id for b in running)}",
            )
            Demo(file, size, uri, record_bytes, running, findings, as_json).run()
    report(findings, as_json)
    if findings.wrong:
        sys.exit(1)


def say(as_json: bool, line: str) -> None:
    if not as_json:
        click.echo(f"  {line}")


class Demo:
    """The steps, in order."""

    def __init__(
        self,
        file: Path,
        size: int,
        uri: str,
        record_bytes: int,
        bookies: list[BookieProcess],
        findings: Findings,
        as_json: bool,
    ) -> None:
        self._file, self._size, self._uri = file, size, uri
        self._record_bytes = record_bytes
        self._bookies = {bookie.bookie_id: bookie for bookie in bookies}
        self._findings = findings
        self._as_json = as_json

    def run(self) -> None:
        with ExitStack() as stack:
            stale = stack.enter_context(self._writer(0, [STALE_WRITER_BYTES], settle=True, close=True))
            stale_ledger = int(stale.hear()["ledger_id"])
            expect_event(stale.hear(), "pause")
            stale.signal(signal.SIGSTOP)
            self._say(f"a writer of ledger {stale_ledger} was paused with SIGSTOP in the middle of its work")
            ledger_id, confirmed = self._lose_a_bookie_and_the_writer()
            recovered = self._recover(ledger_id)
            entries = recovered["last_entry"] + 1
            self._findings.expect(entries >= confirmed["entries"], "recovery lost confirmed entries")
            self._fence_the_stale_writer(stale, stale_ledger)
            successor = self._write_the_rest(entries * self._record_bytes)
            self._read_back([ledger_id, successor], confirmed)

    def _say(self, line: str) -> None:
        say(self._as_json, line)

    @contextmanager
    def _writer(self, first_byte: int, pauses: list[int], *, settle: bool, close: bool) -> Iterator[Child]:
        task = {
            "metadata": self._uri,
            "file": str(self._file),
            "first_byte": first_byte,
            "record_bytes": self._record_bytes,
            "pauses": pauses,
            "settle": settle,
            "close": close,
        }
        with Child(["-m", "ledgers.cli.demo_writer", json.dumps(task)], dies_with_parent=True) as child:
            yield child

    def _lose_a_bookie_and_the_writer(self) -> tuple[int, dict[str, Any]]:
        """Returns the ledger the writer left open, and what it had said was confirmed."""
        pauses = [int(self._size * FIRST_PAUSE), int(self._size * SECOND_PAUSE)]
        with self._writer(0, pauses, settle=False, close=False) as writer:
            began = writer.hear()
            ledger_id = int(began["ledger_id"])
            self._say(f"a writer appends to ledger {ledger_id}, ensemble 3, write quorum 3, ack quorum 2")
            at_first = expect_event(writer.hear(), "pause")
            victim = next(name for name in began["ensemble"] if name in self._bookies)
            self._bookies[victim].kill()
            self._say(f"kill -9 {victim} of its ensemble, with {at_first['entries']:,} entries confirmed")
            writer.tell("go on")
            confirmed = expect_event(writer.hear(), "pause")
            writer.kill()
            self._say(
                f"kill -9 the writer, with {confirmed['entries']:,} entries confirmed and more under way"
            )
        self._findings.measured |= {
            "mb_per_s": round(confirmed["bytes"] / confirmed["seconds"] / 1e6, 1),
            "p50_ms": confirmed["p50_ms"],
            "p99_ms": confirmed["p99_ms"],
        }
        fragments = self._describe(ledger_id)
        self._findings.expect(fragments >= 2, "the ensemble did not change when its bookie died")
        return ledger_id, confirmed

    def _describe(self, ledger_id: int) -> int:
        with LedgerClient(self._uri) as client:
            return len(client.describe_ledger(ledger_id).fragments)

    def _recover(self, ledger_id: int) -> dict[str, Any]:
        """Opens the ledger from another process: fence, recover, close."""
        command = [
            "-m",
            "ledgers.cli",
            "ledger",
            "recover",
            "--json",
            f"--metadata={self._uri}",
            str(ledger_id),
        ]
        with Child(command) as child:
            recovered = child.hear()
        if ledger_id not in self._findings.measured.get("ledgers", []):
            self._findings.measured.setdefault("ledgers", []).append(ledger_id)
        seconds, last = recovered["recover_seconds"], recovered["last_entry"]
        self._say(f"another process recovered ledger {ledger_id} in {seconds} s: closed at entry {last:,}")
        self._findings.measured.setdefault("recover_seconds", seconds)
        self._findings.measured.setdefault("fragments", recovered["fragments"])
        return recovered

    def _fence_the_stale_writer(self, stale: Child, stale_ledger: int) -> None:
        before = dict(self._findings.measured)
        self._recover(stale_ledger)
        self._findings.measured = before
        stale.signal(signal.SIGCONT)
        stale.tell("go on")
        answer = stale.hear()
        fenced = answer.get("error") == "LedgerFenced"
        self._findings.expect(fenced, f"the stale writer was not fenced: {answer}")
        self._findings.measured["stale_writer"] = answer.get("error", "went on")
        self._say(f"resumed the paused writer: {answer.get('message', answer)}")

    def _write_the_rest(self, first_byte: int) -> int:
        """A successor goes on where the recovered ledger ends, in a ledger of its own."""
        with self._writer(first_byte, [], settle=False, close=True) as writer:
            ledger_id = int(writer.hear()["ledger_id"])
            written = expect_event(writer.hear(), "written")
            expect_event(writer.hear(), "closed")
        self._say(f"a new writer stored the rest in ledger {ledger_id}: {written['entries']:,} entries")
        return ledger_id

    def _read_back(self, ledgers: list[int], confirmed: dict[str, Any]) -> None:
        began = time.perf_counter()
        whole, entries, size = hashlib.sha256(), 0, 0
        with LedgerClient(self._uri) as client, progress("reading back", self._size) as advance:
            for ledger_id in ledgers:
                for entry in client.open_ledger(ledger_id).read():
                    whole.update(entry.payload)
                    entries, size = entries + 1, size + len(entry.payload)
                    advance(len(entry.payload))
                    if entries == confirmed["entries"]:
                        same = whole.hexdigest() == confirmed["sha256"]
                        self._findings.expect(
                            same, "what was confirmed to the killed writer came back changed"
                        )
        seconds = time.perf_counter() - began
        expected = sha256_of(self._file)
        self._findings.expect(whole.hexdigest() == expected, "the file came back changed")
        self._findings.measured |= {
            "entries": entries,
            "bytes": size,
            "read_mb_per_s": round(size / seconds / 1e6, 1),
            "sha256_read_back": whole.hexdigest(),
            "sha256_of_the_file": expected,
            "confirmed_before_the_kill": confirmed["entries"],
        }


def expect_event(said: dict[str, Any], event: str) -> dict[str, Any]:
    if said.get("event") != event:
        raise ChildFailed(f"the writer said {said}, not {event!r}")
    return said


def sha256_of(file: Path) -> str:
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


_ROWS = (
    ("entries", "entries"),
    ("bytes", "bytes"),
    ("confirmed before the writer was killed", "confirmed_before_the_kill"),
    ("append MB/s", "mb_per_s"),
    ("append latency p50, ms", "p50_ms"),
    ("append latency p99, ms", "p99_ms"),
    ("fragments of the first ledger", "fragments"),
    ("time to recover, s", "recover_seconds"),
    ("read MB/s", "read_mb_per_s"),
    ("stale writer", "stale_writer"),
    ("SHA-256 of the file", "sha256_of_the_file"),
    ("SHA-256 read back", "sha256_read_back"),
)


def report(findings: Findings, as_json: bool) -> None:
    verdict = "nothing lost, nothing changed" if not findings.wrong else "; ".join(findings.wrong)
    if as_json:
        print_json({**findings.measured, "ok": not findings.wrong, "verdict": verdict})
        return
    measured = findings.measured
    rows = [[name, f"{v:,}" if isinstance(v := measured.get(key), int) else str(v)] for name, key in _ROWS]
    print_table(["", "measured"], rows)
    click.echo(f"verdict: {'OK' if not findings.wrong else 'FAILED'}, {verdict}")
