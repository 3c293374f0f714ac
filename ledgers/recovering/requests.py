"""What bookies are asked when a ledger is recovered or salvaged: by its identity, with the credential that it takes."""

from __future__ import annotations

from bookie.wire import LacRequest, ReadRequest
from bookie.wire.credentials import Purpose
from metadata.records.ledger_record import BookieRef, LedgerRecord

from ..integrity.ledger_keys import LedgerKey


class LedgerRequests:
    """Builds the requests for one ledger. With `fence` a bookie refuses the ledger's writer from its answer on."""

    def __init__(self, record: LedgerRecord, key: LedgerKey, page_bytes: int) -> None:
        self._ledger_id = record.ledger_id
        self._identity = record.identity
        self._key = key
        self._page_bytes = page_bytes

    def lac(self, bookie: BookieRef, *, fence: bool = False) -> LacRequest:
        """For its last-add-confirmed."""
        return LacRequest(
            bookie.incarnation,
            self._ledger_id,
            fence=fence,
            credential=self._key.credential(_purpose(fence), bookie.incarnation),
            identity=self._identity,
        )

    def page(
        self, bookie: BookieRef, first_entry: int, last_entry: int, *, fence: bool = False
    ) -> ReadRequest:
        """For the first page of these entries."""
        return ReadRequest(
            bookie.incarnation,
            self._ledger_id,
            first_entry,
            last_entry,
            self._page_bytes,
            fence=fence,
            credential=self._key.credential(_purpose(fence), bookie.incarnation),
            identity=self._identity,
        )


def _purpose(fence: bool) -> Purpose:
    return Purpose.FENCE if fence else Purpose.READ
