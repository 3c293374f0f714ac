"""An event log: a publisher appends, followers see every event as it is confirmed, in order.

python examples/event_log.py publish TOPIC     # a line of standard input is an event
python examples/event_log.py follow TOPIC      # prints events, old ones first, until it is stopped

A second publisher of a topic takes it over; the first one may publish no more.
"""

import os
import sys

from bookledger import LedgerClient, Log
from bookledger.errors import LogFenced


def publish(log: Log) -> None:
    """Each line is confirmed before the next is read."""
    with log.writer() as writer:
        for line in sys.stdin.buffer:
            writer.append(line.rstrip(b"\n"))


def follow(log: Log) -> None:
    """Old events first, then new ones as they come, whoever publishes them; no publisher is disturbed."""
    for record in log.tail():
        sys.stdout.buffer.write(record.payload + b"\n")
        sys.stdout.flush()


def main() -> None:
    what, topic = sys.argv[1:]
    with LedgerClient(os.environ["BOOKLEDGER_METADATA"]) as client:
        log = client.log(topic, create=True)
        publish(log) if what == "publish" else follow(log)


if __name__ == "__main__":
    try:
        main()
    except LogFenced:
        sys.exit("another publisher has taken over")
    except KeyboardInterrupt:
        sys.exit(130)
