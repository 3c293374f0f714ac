"""A pipeline: readings of many sensors are stored once each, and a group of workers shares them.

    python examples/pipeline.py feed NAME SOURCE   # a line of standard input is a reading: NUMBER SENSOR VALUE
    python examples/pipeline.py work NAME          # prints SENSOR VALUE; run as many as you like

The feed prints the number of each reading that is stored. A source whose feed has died starts another one, and says all
readings again that got no answer, by their numbers: each is stored once. Readings of one sensor come in order. A worker
that dies leaves what it has not committed to the others, which may print the last of it again.
"""

import os
import sys
from concurrent.futures import Future
from functools import partial

from bookledger import LedgerClient, LogSet
from bookledger.errors import LogFenced

LOGS = 4
"""So many workers have something to do at a time."""

LEASE_SECONDS = 3
"""How soon others go on with the logs of a worker that has died."""


def feed(readings: LogSet, source: str) -> None:
    """Many readings are under way at a time, those of one sensor in order."""
    with readings.writer() as writer:
        for line in sys.stdin:
            number, sensor, value = line.split()
            stored = writer.of(sensor.encode()).append_async(
                value.encode(), key=sensor.encode(), producer=source, sequence=int(number)
            )
            stored.add_done_callback(partial(answer, number))


def answer(number: str, stored: Future[int]) -> None:
    if stored.exception() is None:  # else closing the writer raises it
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
