"""Computes and verifies the digests of entries and of last-add-confirmed statements.

An entry's digest covers the ledger id, the entry id and the payload, so the bytes of a different entry or ledger are
never accepted for it. It does not cover how the entry was sent, so every copy of an entry, and every later resend, has
the same bytes. A last-add-confirmed statement has its own digest over ledger id, last entry and length.

CRC32C detects damage. HMAC_SHA256 also detects forgery: its key is derived from the ledger's password and id
(`ledger_keys`) and never leaves the client.
"""

from __future__ import annotations

import hmac
import struct
from array import array
from collections.abc import Sequence
from typing import Protocol

from crc32c import crc32c

from bookie.wire import Columns, LacStatement
from bookie.wire.messages import new_lac
from metadata.records.ledger_record import DigestType

from .ledger_keys import digest_key

_ID = struct.Struct("<q")
_CRC = struct.Struct("<I")
_LAC = struct.Struct("<qq")

PAGE_ENTRIES_MIN = 64
"""Minimum number of entries whose digests are checked in a single pass. Digests of fewer entries are checked one by
one."""


class Digester(Protocol):
    """Computes and verifies the digests of one ledger, each of `width_bytes`. Pure."""

    @property
    def width_bytes(self) -> int: ...

    def sign(self, first_entry: int, payloads: Sequence[bytes], head: bytes = b"") -> bytes:
        """Returns the digest column for consecutive entries. The bytes of each entry are `head` followed by its
        payload."""
        ...

    def bad_entries(self, columns: Columns) -> list[int]:
        """Returns the indexes of entries with a wrong digest; an empty list if all digests are right."""
        ...

    def sign_lac(self, last_entry: int, length_bytes: int) -> LacStatement: ...

    def is_valid_lac(self, statement: LacStatement) -> bool: ...


def digester(digest_type: DigestType, ledger_id: int, secret: bytes) -> Digester:
    """Returns the digester of a ledger."""
    if digest_type is DigestType.HMAC_SHA256:
        return HmacDigester(ledger_id, secret)
    return Crc32cDigester(ledger_id)


class Crc32cDigester:
    """CRC32C digests: four bytes per entry."""

    width_bytes = 4

    def __init__(self, ledger_id: int) -> None:
        self._entry_seed = crc32c(b"E" + _ID.pack(ledger_id))
        self._lac_seed = crc32c(b"L" + _ID.pack(ledger_id))

    def sign(self, first_entry: int, payloads: Sequence[bytes], head: bytes = b"") -> bytes:
        pack, seed = _ID.pack, self._entry_seed
        if len(payloads) == 1:
            return _CRC.pack(crc32c(payloads[0], crc32c(pack(first_entry) + head, seed)))
        return array(
            "I", [crc32c(p, crc32c(pack(i) + head, seed)) for i, p in enumerate(payloads, first_entry)]
        ).tobytes()

    def bad_entries(self, columns: Columns) -> list[int]:
        if len(columns.digests) != 4 * len(columns):
            return list(range(len(columns)))
        if len(columns) >= PAGE_ENTRIES_MIN and self._is_good_page(columns):
            return []
        pack, seed = _ID.pack, self._entry_seed
        found = array("I", [crc32c(p, crc32c(pack(i), seed)) for i, p, _ in columns.rows()])
        if found.tobytes() == columns.digests:
            return []
        stored = memoryview(columns.digests)
        return [n for n, crc in enumerate(found) if _CRC.pack(crc) != stored[4 * n : 4 * n + 4]]

    def _is_good_page(self, columns: Columns) -> bool:
        from . import crc_page  # imports NumPy, which only readers of pages need

        return crc_page.can_check(columns) and crc_page.all_good(columns, self._entry_seed)

    def sign_lac(self, last_entry: int, length_bytes: int) -> LacStatement:
        crc = crc32c(_LAC.pack(last_entry, length_bytes), self._lac_seed)
        return new_lac((last_entry, length_bytes, _CRC.pack(crc)))

    def is_valid_lac(self, statement: LacStatement) -> bool:
        return self.sign_lac(statement.last_entry, statement.length_bytes) == statement


class HmacDigester:
    """HMAC-SHA256 digests: thirty-two bytes per entry."""

    width_bytes = 32

    def __init__(self, ledger_id: int, secret: bytes) -> None:
        self._ledger = _ID.pack(ledger_id)
        self._key = digest_key(ledger_id, secret)

    def _mac(self, kind: bytes, fixed: bytes, payload: bytes | memoryview = b"") -> bytes:
        return hmac.digest(self._key, b"".join((kind, self._ledger, fixed, payload)), "sha256")

    def sign(self, first_entry: int, payloads: Sequence[bytes], head: bytes = b"") -> bytes:
        pack = _ID.pack
        return b"".join([self._mac(b"E", pack(i) + head, p) for i, p in enumerate(payloads, first_entry)])

    def bad_entries(self, columns: Columns) -> list[int]:
        return [
            n
            for n, (entry_id, payload, digest) in enumerate(columns.rows())
            if not hmac.compare_digest(self._mac(b"E", _ID.pack(entry_id), payload), digest)
        ]

    def sign_lac(self, last_entry: int, length_bytes: int) -> LacStatement:
        return LacStatement(last_entry, length_bytes, self._mac(b"L", _LAC.pack(last_entry, length_bytes)))

    def is_valid_lac(self, statement: LacStatement) -> bool:
        mine = self.sign_lac(statement.last_entry, statement.length_bytes)
        return hmac.compare_digest(mine.digest, statement.digest)
