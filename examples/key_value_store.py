"""A key-value store with fail-over. Its write-ahead log is kept in bookledger.

    python examples/key_value_store.py NAME        # then lines like: set color blue / get color

Start it in two terminals with the same NAME: one process leads, and the other stands by until the first ends or dies.
"""

import json
import os
import sys

from bookledger import LedgerClient, Log
from bookledger.errors import TakenOver
from ledgers import Term

LEASE_SECONDS = 3
"""How soon the standby notices the leader's death; also the longest pause that a leader survives."""


SNAPSHOT_CHANGES = 100
"""After this many changes a snapshot of all values is written, and the log is truncated before it."""


class KeyValueStore:
    """The values in memory. Every change is in the log before it is answered."""

    def __init__(self, log: Log, term: Term) -> None:
        self._term = term
        self._log = log
        self._writer = log.writer(term=term)  # fences earlier leaders
        self.values: dict[str, str] = {}
        self._changes = 0
        for record in log.read():
            self._changes += 1
            self.values |= json.loads(record.payload)

    def set(self, key: str, value: str) -> None:
        """Raises LogFenced if another process leads; that process may or may not see this change."""
        self._append({key: value})
        self.values[key] = value
        self._changes += 1
        if self._changes >= SNAPSHOT_CHANGES:
            self._log.truncate(before=self._append(self.values))
            self._changes = 0

    def _append(self, values: dict[str, str]) -> int:
        return self._writer.append(json.dumps(values).encode())

    def get(self, key: str) -> str:
        """Raises LeadershipLost if another process may lead, because that one has newer values."""
        self._term.check()
        return self.values.get(key, "(none)")

    def close(self) -> None:
        self._writer.close()


def serve(store: KeyValueStore) -> None:
    print(f"ready, with {len(store.values)} values", flush=True)
    for line in sys.stdin:
        match line.split(maxsplit=2):
            case ["set", key, value]:
                store.set(key, value.strip())
                print("ok", flush=True)
            case ["get", key]:
                print(store.get(key), flush=True)
            case _:
                print("say: set KEY VALUE, or: get KEY", flush=True)
    store.close()


def main() -> None:
    with LedgerClient(os.environ["BOOKLEDGER_METADATA"]) as client:
        log = client.log(sys.argv[1], create=True)
        with client.election(log.name).lead(lease_seconds=LEASE_SECONDS) as term:  # waits to be elected
            serve(KeyValueStore(log, term))


if __name__ == "__main__":
    try:
        main()
    except TakenOver:
        sys.exit("another process has taken over")
