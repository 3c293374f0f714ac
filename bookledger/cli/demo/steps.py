"""The steps of the demo, in order, and its findings."""

from __future__ import annotations

import hashlib
import json
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ledgers import LedgerClient, LedgerRecord

from ..child import Child, ChildFailed
from ..output import ProgressBar, Say
from ..processes import BOOKLEDGER, BookieProcess

BOOKIE_DIES_AT, CHANGED_AT, WRITER_DIES_AT = 0.3, 0.5, 0.8
"""Fractions of the file after which a bookie is killed, its replacement is awaited, and the writer is killed."""

STALE_WRITER_BYTES_MAX = 64 * 1024
"""Bytes appended by the writer that is then paused and fenced; at most half of the file."""

CHANGE_SECONDS_MAX = 30.0
CHANGE_POLL_SECONDS = 0.02
"""How long, and how often, to poll the metadata for the ensemble change."""


@dataclass(slots=True)
class DemoResult:
    """The demo's measurements and failed expectations."""

    measured: dict[str, Any] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def expect(self, holds: bool, what: str) -> None:
        if not holds:
            self.wrong.append(what)


class Demo:
    """Stores `file` on `bookies`, kills one bookie and the writer, and reads everything back."""

    def __init__(
        self, file: Path, uri: str, record_bytes: int, bookies: list[BookieProcess], say: Say
    ) -> None:
        self.findings = DemoResult()
        self._file, self._size = file, file.stat().st_size
        self._uri = uri
        self._record_bytes = record_bytes
        self._bookies = {bookie.bookie_id: bookie for bookie in bookies}
        self._say = say

    def run(self) -> None:
        """Runs all steps. Raises ChildFailed, or a LedgerError, if a step could not be carried out at all."""
        with ExitStack() as stack:
            stale = stack.enter_context(self._writer([(self._stale_bytes(), True)]))
            stale_ledger = int(expect_event(stale.hear(), "ledger")["ledger_id"])
            expect_event(stale.hear(), "pause")
            stale.signal(signal.SIGSTOP)
            self._say(f"a writer of ledger {stale_ledger} was paused with SIGSTOP in the middle of its work")
            ledger_id, confirmed = self._lose_a_bookie_and_the_writer()
            entries = self._recover_first(ledger_id)
            self.findings.expect(entries >= confirmed["entries"], "recovery lost confirmed entries")
            self._fence(stale, stale_ledger)
            successor = self._write_the_rest(entries * self._record_bytes)
            self._read_back([ledger_id, successor], confirmed)

    def _stale_bytes(self) -> int:
        return min(STALE_WRITER_BYTES_MAX, self._size // 2)

    def _writer(
        self,
        pauses: list[tuple[int, bool]],
        *,
        first_byte: int = 0,
        one_of: list[str] | None = None,
        **more: Any,
    ) -> Child:
        task = {
            "metadata": self._uri,
            "file": str(self._file),
            "first_byte": first_byte,
            "record_bytes": self._record_bytes,
            "pauses": [{"at_byte": at_byte, "settle": settle} for at_byte, settle in pauses],
            "one_of": one_of or [],
            "close": True,
            **more,
        }
        command = ("-m", "bookledger.cli.demo.writer", json.dumps(task))
        return Child(command, name="the writer", dies_with_parent=True)

    def _lose_a_bookie_and_the_writer(self) -> tuple[int, dict[str, Any]]:
        """Returns the ledger that the writer left open, and its last report of confirmed entries."""
        deaths = ((BOOKIE_DIES_AT, False), (CHANGED_AT, True), (WRITER_DIES_AT, False))
        pauses = [(int(self._size * share), settle) for share, settle in deaths]
        with self._writer(pauses, one_of=list(self._bookies), close=False) as writer:
            began = expect_event(writer.hear(), "ledger")
            ledger_id = int(began["ledger_id"])
            self._say(f"a writer appends to ledger {ledger_id}, ensemble 3, write quorum 3, ack quorum 2")
            at_first = expect_event(writer.hear(), "pause")
            self._kill_one_of(began["ensemble"], ledger_id, at_first["entries"], writer)
            writer.send("go on")
            confirmed = expect_event(writer.hear(), "pause")
            writer.kill()
        self._say(f"kill -9 the writer, with {confirmed['entries']:,} entries confirmed and more under way")
        self.findings.measured |= {
            "mb_per_s": round(confirmed["bytes"] / confirmed["seconds"] / 1e6, 1),
            "p50_ms": confirmed["p50_ms"],
            "p99_ms": confirmed["p99_ms"],
        }
        return ledger_id, confirmed

    def _kill_one_of(self, ensemble: list[str], ledger_id: int, entries: int, writer: Child) -> None:
        """Kills a bookie of the ensemble, resumes the writer, and waits until another bookie replaces it."""
        victim = next(name for name in ensemble if name in self._bookies)
        self._bookies[victim].kill()
        self._say(f"kill -9 {victim} of its ensemble, with {entries:,} entries confirmed")
        writer.send("go on")
        expect_event(writer.hear(), "pause")

        def is_replaced(record: LedgerRecord) -> bool:
            return victim not in [bookie.bookie_id for bookie in record.fragments[-1].ensemble]

        changed = self._await(ledger_id, is_replaced)
        self.findings.expect(changed, "the ensemble did not change when its bookie died")

    def _await(self, ledger_id: int, holds: Callable[[LedgerRecord], bool]) -> bool:
        """Waits up to CHANGE_SECONDS_MAX until the ledger's metadata meets the condition, and returns whether it
        does."""
        deadline = time.monotonic() + CHANGE_SECONDS_MAX
        with LedgerClient(self._uri) as client:
            while not (there := holds(client.describe_ledger(ledger_id))) and time.monotonic() < deadline:
                time.sleep(CHANGE_POLL_SECONDS)
        return there

    def _recover_first(self, ledger_id: int) -> int:
        """Recovers the ledger whose writer was killed; returns its number of entries."""
        recovered = self._recover(ledger_id)
        for name, key in {"recover_seconds": "recover_seconds", "fragments": "fragment_count"}.items():
            self.findings.measured[name] = recovered[key]
        return int(recovered["last_entry"]) + 1

    def _recover(self, ledger_id: int) -> dict[str, Any]:
        """Recovers the ledger in another process, which fences, recovers and closes it."""
        command = (*BOOKLEDGER, "ledger", "recover", "--json", f"--metadata={self._uri}", str(ledger_id))
        with Child(command, name=f"recovering ledger {ledger_id}", dies_with_parent=True) as child:
            recovered = child.hear()
        seconds, last = recovered["recover_seconds"], recovered["last_entry"]
        self._say(f"another process recovered ledger {ledger_id} in {seconds} s: closed at entry {last:,}")
        return recovered

    def _fence(self, stale: Child, stale_ledger: int) -> None:
        self._recover(stale_ledger)
        stale.signal(signal.SIGCONT)
        stale.send("go on")
        answer = stale.hear()
        fenced = answer.get("error") == "LedgerFenced"
        self.findings.expect(fenced, "the stale writer was not fenced")
        self.findings.measured["stale_writer"] = answer.get("error", "went on")
        self._say(f"resumed the paused writer: {answer.get('message', 'it continued')}")

    def _write_the_rest(self, first_byte: int) -> int:
        """Continues in a new ledger from where the recovered one ends."""
        with self._writer([], first_byte=first_byte) as writer:
            ledger_id = int(expect_event(writer.hear(), "ledger")["ledger_id"])
            written = expect_event(writer.hear(), "written")
            expect_event(writer.hear(), "closed")
        self._say(f"a new writer stored the rest in ledger {ledger_id}: {written['entries']:,} entries")
        return ledger_id

    def _read_back(self, ledgers: list[int], confirmed: dict[str, Any]) -> None:
        began = time.perf_counter()
        whole, entries, size = hashlib.sha256(), 0, 0
        with LedgerClient(self._uri) as client, ProgressBar("reading back", self._size) as advance:
            for ledger_id in ledgers:
                for entry in client.open_ledger(ledger_id).read():
                    whole.update(entry.payload)
                    entries, size = entries + 1, size + len(entry.payload)
                    advance(len(entry.payload))
                    if entries == confirmed["entries"]:
                        same = whole.hexdigest() == confirmed["sha256"]
                        self.findings.expect(
                            same, "entries confirmed to the killed writer had changed when read back"
                        )
        seconds = time.perf_counter() - began
        expected = sha256_of(self._file)
        self.findings.expect(whole.hexdigest() == expected, "the file had changed when it was read back")
        self.findings.measured |= {
            "ledgers": ledgers,
            "entries": entries,
            "bytes": size,
            "read_mb_per_s": round(size / seconds / 1e6, 1),
            "sha256_read_back": whole.hexdigest(),
            "sha256_of_the_file": expected,
            "confirmed_before_the_kill": confirmed["entries"],
        }


def expect_event(said: dict[str, Any], event: str) -> dict[str, Any]:
    """Checks that the writer sent this event. Otherwise raises ChildFailed, which contains the writer's error if it
    sent one."""
    match said.get("event"):
        case found if found == event:
            return said
        case "error":
            raise ChildFailed(f"the writer failed: {said['message']}")
        case other:
            raise ChildFailed(f"the writer sent {other!r} when {event!r} was expected")


def sha256_of(file: Path) -> str:
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
