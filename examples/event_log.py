"""An event log: publishers append, followers see every event in order as it is confirmed.

python examples/event_log.py publish TOPIC     # a line of standard input is an event
python examples/event_log.py follow TOPIC      # prints events, old ones first, until it is stopped
"""

import os
import sys
import time
from collections.abc import Iterator

from bookledger import LedgerClient

NEW_LEDGER_SECONDS = 0.1
"""How often a follower that has seen everything looks for another ledger."""


def publish(client: LedgerClient, topic: str) -> None:
    """One ledger for each run of a publisher. Each line is confirmed before the next is read."""
    with client.create_ledger(custom_metadata={"topic": topic.encode()}) as writer:
        for line in sys.stdin.buffer:
            writer.append(line.rstrip(b"\n"))


def ledgers_of(client: LedgerClient, topic: str, after: int) -> list[int]:
    records = client.list_ledgers(first_ledger=after + 1)
    return [r.ledger_id for r in records if r.custom_metadata.get("topic") == topic.encode()]


def follow(client: LedgerClient, topic: str) -> Iterator[bytes]:
    """All events of the topic, in the order of their ledgers; waits for those to come.

    It never fences a publisher. A ledger that its publisher left open when it died holds the follower up: recover
    it with `bookledger ledger recover ID`.
    """
    last = -1
    while True:
        for ledger_id in ledgers_of(client, topic, last):
            reader = client.open_ledger(ledger_id, recovery=False)
            for entry in reader.tail(start=0):  # ends when the ledger is closed
                yield entry.payload
            last = ledger_id
        time.sleep(NEW_LEDGER_SECONDS)


def main() -> None:
    what, topic = sys.argv[1:]
    with LedgerClient(os.environ["BOOKLEDGER_METADATA"]) as client:
        if what == "publish":
            publish(client, topic)
        else:
            for event in follow(client, topic):
                sys.stdout.buffer.write(event + b"\n")
                sys.stdout.flush()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
