"""A key-value store whose write-ahead log is kept in ledgers.

    python examples/key_value_store.py NAME        # then lines like: set color blue / get color

Start it in two terminals with one NAME: the second takes over, and the first may write no more.
"""

import json
import os
import sys

from bookledger import LedgerClient, WriteHandle
from bookledger.errors import LedgerFenced


class TakenOver(Exception):
    """A newer process of this name is at work."""


class KeyValueStore:
    """The values in memory; every change is in the log before it is answered."""

    def __init__(self, client: LedgerClient, name: str) -> None:
        self.values: dict[str, str] = {}
        self._client = client
        self._name = name.encode()
        self._log = self._take_over()

    def set(self, key: str, value: str) -> None:
        """Raises LedgerFenced if another process has taken over: it may or may not see this change."""
        self._log.append(json.dumps([key, value]).encode())
        self.values[key] = value

    def close(self) -> None:
        self._log.close()

    def _take_over(self) -> WriteHandle:
        """The process with the highest ledger wins; it fences all others, then has all that they wrote.

        Ids rise. Whoever makes a ledger looks once more: at a lower one, whose writer it fences, or at a higher one,
        whose writer will fence, or has fenced, this process.
        """
        log = self._client.create_ledger(custom_metadata={"key-value-store": self._name})
        for ledger_id in self._ledgers():
            if ledger_id > log.ledger_id:
                log.close()
                raise TakenOver
            if ledger_id < log.ledger_id:
                self._replay(ledger_id)
        return log

    def _ledgers(self) -> list[int]:
        records = self._client.list_ledgers()
        return sorted(r.ledger_id for r in records if r.custom_metadata.get("key-value-store") == self._name)

    def _replay(self, ledger_id: int) -> None:
        """Opening a ledger fences its writer: from here on nothing is added to it."""
        for entry in self._client.open_ledger(ledger_id).read():
            key, value = json.loads(entry.payload)
            self.values[key] = value


def main() -> None:
    with LedgerClient(os.environ["BOOKLEDGER_METADATA"]) as client:
        store = KeyValueStore(client, sys.argv[1])
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
    except (LedgerFenced, TakenOver):
        sys.exit("another process has taken over")
