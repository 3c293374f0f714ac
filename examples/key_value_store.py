"""A key-value store whose write-ahead log is kept in ledgers.

    python examples/key_value_store.py NAME        # then lines like: set color blue / get color

Start it in two terminals with one NAME: the second takes over, and the first may write no more.
"""

import asyncio
import json
import os
import sys

from ledgers import LedgerClient, LedgerFenced, WriteHandle
from metadata import KeyExists, MetadataStore, OutcomeUnknown, VersionConflict, open_store

METADATA = os.environ["BOOKLEDGER_METADATA"]


class TakenOver(Exception):
    """A newer process of this name is at work."""


class KeyValueStore:
    """The values in memory; every change is in the log before it is answered."""

    def __init__(self, client: LedgerClient, name: str) -> None:
        self.values: dict[str, str] = {}
        self._client = client
        self._name = name
        self._log = self._take_over()

    def set(self, key: str, value: str) -> None:
        """Raises LedgerFenced if another process has taken over: it may or may not see this change."""
        self._log.append(json.dumps([key, value]).encode())
        self.values[key] = value

    def close(self) -> None:
        self._log.close()

    def _take_over(self) -> WriteHandle:
        with asyncio.Runner() as loop:
            store = loop.run(open_store(METADATA))
            try:
                return self._lead(loop, store)
            finally:
                loop.run(store.close())

    def _lead(self, loop: asyncio.Runner, store: MetadataStore) -> WriteHandle:
        """Fences whoever wrote before and reads all of it; leads only if the pointer still stands where it stood: the
        key that names the ledgers in order. Of two that take over at once one moves it."""
        pointer = f"key-value-store/{self._name}"
        found = loop.run(store.get(pointer))
        ledger_ids = json.loads(found.value) if found else []
        for ledger_id in ledger_ids:
            self._replay(ledger_id)
        log = self._client.create_ledger(custom_metadata={"key-value-store": self._name.encode()})
        moved = json.dumps([*ledger_ids, log.ledger_id]).encode()
        try:  # a compare-and-swap
            loop.run(store.replace(pointer, moved, found.version) if found else store.create(pointer, moved))
        except (
            KeyExists,
            VersionConflict,
            OutcomeUnknown,
        ):  # if an answer was lost, it may have been this one
            stands = loop.run(store.get(pointer))
            if stands is None or stands.value != moved:
                log.close()
                raise TakenOver from None
        return log

    def _replay(self, ledger_id: int) -> None:
        """Opening a ledger fences its writer: from here on nothing is added to it."""
        for entry in self._client.open_ledger(ledger_id).read():
            key, value = json.loads(entry.payload)
            self.values[key] = value


def main() -> None:
    with LedgerClient(METADATA) as client:
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
