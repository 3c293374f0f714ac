"""The demo's writer process: appends a file in records and tells its parent what is confirmed.

    python -m ledgers.cli.demo_writer '{"metadata": …, "file": …, "first_byte": 0, "record_bytes": 4096,
                                        "pauses": [bytes, …], "settle": true, "close": true}'

It says, a JSON line each: its ledger and ensemble; at each pause, and at the end, how many entries
are confirmed with the SHA-256 of exactly those; the error that ended it. It goes on after a pause
when a line comes on standard input. What it says was confirmed before it was said.
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
"""Appends not yet confirmed; what a latency here means."""

LATENCIES_MAX = 2_000_000
"""Latencies kept for the percentiles; a longer file is measured on its first so many."""


@dataclass(slots=True)
class Confirmed:
    """What has been confirmed, in entry order."""

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


def write_file(
    writer: WriteHandle, file: BinaryIO, record_bytes: int, pauses: list[int], *, settle: bool
) -> Confirmed:
    """Appends the rest of the file, with up to IN_FLIGHT_MAX appends under way; none at a pause with `settle`."""
    confirmed = Confirmed()
    in_flight: deque[tuple[float, bytes, Future[int]]] = deque()
    began, paused, sent = time.perf_counter(), 0.0, 0
    while record := file.read(record_bytes):
        in_flight.append((time.perf_counter(), record, writer.append_async(record)))
        sent += len(record)
        take_confirmed(in_flight, confirmed, down_to=IN_FLIGHT_MAX - 1)
        if pauses and sent >= pauses[0]:
            del pauses[0]
            stopped = time.perf_counter()
            if settle:
                take_confirmed(in_flight, confirmed, down_to=0)
            confirmed.say("pause", seconds=stopped - began - paused)
            sys.stdin.readline()
            paused += time.perf_counter() - stopped
    take_confirmed(in_flight, confirmed, down_to=0)
    confirmed.say(
        "written", seconds=time.perf_counter() - began - paused, fragments=len(writer.record.fragments)
    )
    return confirmed


def take_confirmed(
    in_flight: deque[tuple[float, bytes, Future[int]]], confirmed: Confirmed, *, down_to: int
) -> None:
    """Takes what is confirmed, waiting for the oldest while more than `down_to` are under way."""
    while in_flight and (len(in_flight) > down_to or in_flight[0][2].done()):
        appended_at, payload, future = in_flight.popleft()
        entry_id = future.result()
        assert entry_id == confirmed.entries, "confirmed out of order"
        confirmed.add(payload, time.perf_counter() - appended_at)


def main() -> None:
    task = json.loads(sys.argv[1])
    try:
        with LedgerClient(task["metadata"]) as client:
            writer = client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2)
            ensemble = [bookie.bookie_id for bookie in writer.record.fragments[0].ensemble]
            say(event="ledger", ledger_id=writer.ledger_id, ensemble=ensemble)
            with open(task["file"], "rb") as file:
                file.seek(task["first_byte"])
                write_file(writer, file, task["record_bytes"], task["pauses"], settle=task["settle"])
            if task["close"]:
                writer.close()
                say(event="closed")
            else:
                sys.stdin.readline()  # the ledger stays open: whoever started us decides how this ends
    except LedgerError as error:
        say(event="error", error=type(error).__name__, message=str(error))
    except BrokenPipeError:
        sys.exit(1)  # nobody listens any more: the demo was killed, and so are its bookies


if __name__ == "__main__":
    main()
