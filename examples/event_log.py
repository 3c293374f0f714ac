"""An event log: publishers append, followers see every event as it is confirmed, those of one publisher in order.

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


def ledgers_of(client: LedgerClient, topic: str) -> list[int]:
    wanted = topic.encode()
    return [r.ledger_id for r in client.list_ledgers() if r.custom_metadata.get("topic") == wanted]


def follow(client: LedgerClient, topic: str) -> Iterator[bytes]:
    """All events of the topic, one ledger after the other; waits for those to come.

    Of two publishers that begin at once the one with the lower id may come into sight later: so what was seen is
    remembered, not how far one came.

    It never fences a publisher. A ledger that its publisher left open when it died holds the follower up: recover
    it with `bookledger ledger recover ID`.
    """
    seen: set[int] = set()
    while True:
        for ledger_id in ledgers_of(client, topic):
            if ledger_id in seen:
                continue
            reader = client.open_ledger(ledger_id, recovery=False)
            for entry in reader.tail():  # ends when the ledger is closed
                yield entry.payload
            seen.add(ledger_id)
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
