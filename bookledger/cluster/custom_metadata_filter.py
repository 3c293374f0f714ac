"""Finds ledgers by their custom metadata."""

from __future__ import annotations

import os
from dataclasses import dataclass

from metadata.records.ledger_record import LedgerRecord


@dataclass(frozen=True, slots=True)
class CustomMetadataFilter:
    """A condition on custom metadata: a key must have this value, a value that contains this part, or any value."""

    key: str
    value: bytes | None = None
    is_part: bool = False

    @classmethod
    def of(cls, text: str) -> CustomMetadataFilter:
        """Reads `KEY`, `KEY=VALUE` or `KEY~PART`."""
        sign = next((one for one in text if one in "=~"), "")
        key, _, value = text.partition(sign) if sign else (text, "", "")
        return cls(key, os.fsencode(value) if sign else None, sign == "~")

    def is_of(self, record: LedgerRecord) -> bool:
        """Returns whether the record matches."""
        found = record.custom_metadata.get(self.key)
        if found is None or self.value is None:
            return found is not None
        return self.value in found if self.is_part else self.value == found

    def may_be_in(self, encoded: bytes) -> bool:
        """Returns False only if no record with these bytes matches. It is fast, so that most records need not be
        decoded."""
        return os.fsencode(self.key) in encoded and (self.value or b"") in encoded
