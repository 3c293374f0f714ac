"""A key-value store whose write-ahead log is kept in bookledger.

    python examples/key_value_store.py NAME        # then lines like: set color blue / get color

Start it in two terminals with one NAME: the second takes over, and the first may write no more.
"""

import json
import os
import sys

from bookledger import LedgerClient, Log
from bookledger.errors import LogFenced


class KeyValueStore:
    """The values in memory; every change is in the log before it is answered."""

    def __init__(self, log: Log) -> None:
        self._writer = log.writer()  # from here on no other process adds anything
        changes = (json.loads(record.payload) for record in log.read())
        self.values: dict[str, str] = dict(changes)

    def set(self, key: str, value: str) -> None:
        """Raises LogFenced if another process has taken over: it may or may not see this change."""
        self._writer.append(json.dumps([key, value]).encode())
        self.values[key] = value

    def close(self) -> None:
        self._writer.close()


def main() -> None:
    with LedgerClient(os.environ["BOOKLEDGER_METADATA"]) as client:
        store = KeyValueStore(client.log(sys.argv[1], create=True))
        print(f"ready, with {len(store.values)} values", flush=True)
        for line in sys.stdin:
            match line.split(maxsplit=2):
                case ["set", key, value]:
                    store.set(key, value.strip())
                    print("ok", flush=True)
                case ["get", key]:
                    print(store.values.get(key, "(none)"), flush=True)
                case _:
                    print("say: set KEY VALUE, or: get KEY", flush=True)
        store.close()


if __name__ == "__main__":
    try:
        main()
    except LogFenced:
        sys.exit("another process has taken over")
