"""An event log: a publisher appends events, and each consumer sees all of them in order, including those that it
missed.

    python examples/event_log.py publish TOPIC            # each line of standard input is an event; prints its position
    python examples/event_log.py consume TOPIC CONSUMER   # prints events until stopped; the next run continues there

Events are kept for a week. If a consumer dies, the events of its last second are printed again. A second process for
the same consumer waits as a standby. A second publisher of a topic takes it over, and the first one can no longer
publish.
"""

import os
import sys

from bookledger import LedgerClient, Log
from bookledger.errors import LogExists, LogFenced
from ledgers import Retention

WEEK = Retention(age_seconds=7 * 86_400)
SEGMENT_SECONDS = 3600
"""Old events are deleted one segment at a time, which holds the events of an hour."""

LEASE_SECONDS = 3
"""How soon another process replaces a consumer that has died."""


def opened(client: LedgerClient, topic: str) -> Log:
    try:
        return client.create_log(topic, roll_seconds=SEGMENT_SECONDS, retention=WEEK)
    except LogExists:
        return client.log(topic)


def publish(log: Log) -> None:
    """Confirms each line before it reads the next."""
    with log.writer() as writer:
        for line in sys.stdin.buffer:
            print(writer.append(line.rstrip(b"\n")), flush=True)


def consume(log: Log, consumer: str) -> None:
    """Prints old events first, then new ones as they arrive, from any publisher. Does not disturb publishers."""
    for record in log.consume(consumer, lease_seconds=LEASE_SECONDS):
        sys.stdout.buffer.write(record.payload + b"\n")
        sys.stdout.flush()


def main() -> None:
    what, topic, *consumer = sys.argv[1:]
    with LedgerClient(os.environ["BOOKLEDGER_METADATA"]) as client:
        log = opened(client, topic)
        publish(log) if what == "publish" else consume(log, *consumer)


if __name__ == "__main__":
    try:
        main()
    except LogFenced:
        sys.exit("another publisher has taken over")
    except KeyboardInterrupt:
        sys.exit(130)
