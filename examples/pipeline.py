"""A pipeline: readings of many sensors are stored once each, and a group of workers shares them.

    python examples/pipeline.py feed NAME SOURCE   # each line of standard input is a reading: NUMBER SENSOR VALUE
    python examples/pipeline.py work NAME          # prints SENSOR VALUE; run as many as you like

The feed prints the number of each reading that is stored. If a feed dies, its source starts another one and sends all
unanswered readings again, with the same numbers: each is stored once. Readings of one sensor arrive in order. If a
worker dies, other workers take over its uncommitted readings, and may print the last of them again.
"""

import os
import sys
from concurrent.futures import Future
from functools import partial

from bookledger import LedgerClient, LogSet
from bookledger.errors import LogFenced

LOGS = 4
"""The number of workers that can be busy at a time."""

LEASE_SECONDS = 3
"""How soon other workers take over the logs of a worker that has died."""


def feed(readings: LogSet, source: str) -> None:
    """Keeps many readings in flight at a time; those of one sensor stay in order."""
    with readings.writer() as writer:
        for line in sys.stdin:
            number, sensor, value = line.split()
            stored = writer.of(sensor.encode()).append_async(
                value.encode(), key=sensor.encode(), producer=source, sequence=int(number)
            )
            stored.add_done_callback(partial(answer, number))


def answer(number: str, stored: Future[int]) -> None:
    if stored.exception() is None:  # otherwise closing the writer raises it
        print(number, flush=True)


def work(readings: LogSet) -> None:
    for _, record in readings.consume("workers", lease_seconds=LEASE_SECONDS):
        print((record.key or b"").decode(), record.payload.decode(), flush=True)


def main() -> None:
    what, name, *source = sys.argv[1:]
    with LedgerClient(os.environ["BOOKLEDGER_METADATA"]) as client:
        readings = client.log_set(name, logs=LOGS)
        feed(readings, *source) if what == "feed" else work(readings)


if __name__ == "__main__":
    try:
        main()
    except LogFenced:
        sys.exit("another feed has taken over")
    except KeyboardInterrupt:
        sys.exit(130)
