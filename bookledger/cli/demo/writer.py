"""The demo's writer process: appends a file in records and reports the confirmed entries to its parent.

    python -m bookledger.cli.demo.writer '{"metadata": …, "file": …, "first_byte": 0, "record_bytes": 4096,
                                        "pauses": [{"at_byte": …, "settle": true}, …],
                                        "one_of": [bookie, …], "close": true}'

It prints JSON lines: its ledger and ensemble, which includes one of the given bookies; at each pause and at the end,
the number of confirmed entries and the SHA-256 of exactly those entries; and the error that ended the process. After a
pause, the process resumes when it reads a line from standard input. It reports only confirmed entries: at each pause,
at least one more than at the previous pause, and with `settle`, all entries appended so far.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from array import array
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from ledgers import LedgerClient, LedgerError, WriteHandle

IN_FLIGHT_MAX = 512
"""Maximum number of unconfirmed appends; in the demo, it determines the latency."""

LATENCIES_MAX = 2_000_000
"""Maximum number of latencies kept for the percentiles; for a longer file, only the first ones are kept."""

ENSEMBLE_TRIES_MAX = 30
"""Maximum number of ledgers created until one has the right ensemble, in case the store has bookies that are not the
demo's."""


@dataclass(slots=True)
class Confirmed:
    """Totals, digest and latencies of the entries that have been confirmed, in order."""

    entries: int = 0
    size: int = 0
    digest: Any = field(default_factory=hashlib.sha256)
    latencies: array[float] = field(default_factory=lambda: array("d"))

    def add(self, payload: bytes, seconds: float) -> None:
        self.entries += 1
        self.size += len(payload)
        self.digest.update(payload)
        if len(self.latencies) < LATENCIES_MAX:
            self.latencies.append(seconds)

    def say(self, event: str, **more: Any) -> None:
        ordered = sorted(self.latencies)
        say(
            event=event,
            entries=self.entries,
            bytes=self.size,
            sha256=self.digest.hexdigest(),
            p50_ms=round(1000 * ordered[len(ordered) // 2], 3) if ordered else None,
            p99_ms=round(1000 * ordered[len(ordered) * 99 // 100], 3) if ordered else None,
            **more,
        )


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


class FileWriter:
    """Appends a file, with up to IN_FLIGHT_MAX appends in flight, and measures latencies."""

    def __init__(self, writer: WriteHandle, record_bytes: int, pauses: list[dict[str, Any]]) -> None:
        self._writer = writer
        self._record_bytes = record_bytes
        self._pauses = deque(pauses)
        self._in_flight: deque[tuple[float, bytes, Future[int]]] = deque()
        self._confirmed = Confirmed()
        self._began = time.perf_counter()
        self._paused_seconds = 0.0
        self._confirmed_at_last_pause = 0

    def write(self, file: BinaryIO) -> None:
        sent_bytes = 0
        while record := file.read(self._record_bytes):
            self._in_flight.append((time.perf_counter(), record, self._writer.append_async(record)))
            sent_bytes += len(record)
            self._take_confirmed(down_to=IN_FLIGHT_MAX - 1)
            if self._pauses and sent_bytes >= self._pauses[0]["at_byte"]:
                self._pause(settle=self._pauses.popleft()["settle"])
        self._take_confirmed(down_to=0)
        self._confirmed.say("written", seconds=self._seconds())

    def _pause(self, *, settle: bool) -> None:
        if settle:
            self._take_confirmed(down_to=0)
        elif self._confirmed.entries == self._confirmed_at_last_pause:
            self._take_confirmed(down_to=len(self._in_flight) - 1)
        self._confirmed_at_last_pause = self._confirmed.entries
        stopped = time.perf_counter()
        self._confirmed.say("pause", seconds=self._seconds())
        sys.stdin.readline()
        self._paused_seconds += time.perf_counter() - stopped

    def _take_confirmed(self, *, down_to: int) -> None:
        """Records confirmed appends, and waits for the oldest append while more than `down_to` are in flight."""
        while self._in_flight and (len(self._in_flight) > down_to or self._in_flight[0][2].done()):
            appended_at, payload, future = self._in_flight.popleft()
            entry_id = future.result()
            assert entry_id == self._confirmed.entries, "confirmed out of order"
            self._confirmed.add(payload, time.perf_counter() - appended_at)

    def _seconds(self) -> float:
        """Returns the time spent writing, without the pauses."""
        return time.perf_counter() - self._began - self._paused_seconds


def create_ledger(client: LedgerClient, one_of: list[str]) -> WriteHandle:
    """Creates a ledger on three bookies, including at least one of `one_of` if that is not empty."""
    for _ in range(ENSEMBLE_TRIES_MAX):
        writer = client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2)
        if not one_of or set(one_of) & set(ensemble_of(writer)):
            return writer
        writer.close()
        client.delete_ledger(writer.ledger_id)
    raise LedgerError(
        f"{ENSEMBLE_TRIES_MAX} ledgers in a row were placed on bookies other than the demo's own; give "
        "the demo a metadata store with fewer other bookies"
    )


def ensemble_of(writer: WriteHandle) -> list[str]:
    return [bookie.bookie_id for bookie in writer.record.fragments[0].ensemble]


def main() -> None:
    task = json.loads(sys.argv[1])
    try:
        with LedgerClient(task["metadata"]) as client:
            writer = create_ledger(client, task["one_of"])
            say(event="ledger", ledger_id=writer.ledger_id, ensemble=ensemble_of(writer))
            with open(task["file"], "rb") as file:
                file.seek(task["first_byte"])
                FileWriter(writer, task["record_bytes"], task["pauses"]).write(file)
            if task["close"]:
                writer.close()
                say(event="closed")
            else:
                sys.stdin.readline()  # the ledger stays open: the parent decides what happens to it
    except (LedgerError, OSError) as error:
        if not isinstance(error, BrokenPipeError):
            say(event="error", error=type(error).__name__, message=str(error))
        sys.exit(1)  # a broken pipe: the demo was killed, and so were its bookies


if __name__ == "__main__":
    main()
