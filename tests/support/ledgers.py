"""Records of ledgers, changed as anybody may who has the metadata."""

from __future__ import annotations

from collections.abc import Callable

from ledgers import WriteHandle
from metadata.records.ledger_record import LedgerRecord
from metadata.records.ledger_store import LedgerStore, VersionedRecord
from tests.support.present import there


def crash(writer: WriteHandle) -> None:
    """Leaves the ledger open, as its program's death would: a client that is closed closes its writers."""
    writer._thread.run(writer._twin.abandon)


async def change(
    ledgers: LedgerStore, ledger_id: int, to: Callable[[LedgerRecord], LedgerRecord]
) -> VersionedRecord:
    """The record as it stands becomes another."""
    found = there(await ledgers.read(ledger_id))
    return await ledgers.change(to(found.record), found.version)


async def delete(ledgers: LedgerStore, *ledger_ids: int) -> None:
    for ledger_id in ledger_ids:
        await ledgers.delete(there(await ledgers.read(ledger_id)))
