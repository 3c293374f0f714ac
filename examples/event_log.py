"""An event log: a publisher appends, each consumer sees every event in order, also what came while it was away.

python examples/event_log.py publish TOPIC            # a line of standard input is an event; prints its position
python examples/event_log.py consume TOPIC CONSUMER   # prints events until it is stopped, and goes on there next time

Events are kept for a week. A consumer that dies prints those of its last second again. A second process of one consumer
stands by; a second publisher of a topic takes it over, and the first one may publish no more.
"""

import os
import sys

from bookledger import LedgerClient, Log
from bookledger.errors import LogExists, LogFenced
from ledgers import Retention

WEEK = Retention(age_seconds=7 * 86_400)
SEGMENT_SECONDS = 3600
"""Old events go so many at a time, those of an hour."""

LEASE_SECONDS = 3
"""How soon another process goes on for a consumer that has died."""


def opened(client: LedgerClient, topic: str) -> Log:
    try:
        return client.create_log(topic, roll_seconds=SEGMENT_SECONDS, retention=WEEK)
    except LogExists:
        return client.log(topic)


def publish(log: Log) -> None:
    """Each line is confirmed before the next is read."""
    with log.writer() as writer:
        for line in sys.stdin.buffer:
            print(writer.append(line.rstrip(b"\n")), flush=True)


def consume(log: Log, consumer: str) -> None:
    """Old events first, then new ones as they come, whoever publishes them; no publisher is disturbed."""
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
