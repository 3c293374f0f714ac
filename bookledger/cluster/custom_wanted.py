"""Finds ledgers by their custom metadata."""

from __future__ import annotations

import os
from dataclasses import dataclass

from metadata.records.ledger_record import LedgerRecord


@dataclass(frozen=True, slots=True)
class CustomWanted:
    """A key of custom metadata, with this value or any."""

    key: str
    value: bytes | None = None

    @classmethod
    def of(cls, text: str) -> CustomWanted:
        """Reads `KEY` or `KEY=VALUE`."""
        key, separator, value = text.partition("=")
        return cls(key, os.fsencode(value) if separator else None)

    def is_of(self, record: LedgerRecord) -> bool:
        """Whether the record has it."""
        found = record.custom_metadata.get(self.key)
        return found is not None and self.value in (None, found)

    def may_be_in(self, encoded: bytes) -> bool:
        """False only if no record of these bytes has it: quick, so that most need not be decoded."""
        return os.fsencode(self.key) in encoded and (self.value or b"") in encoded
