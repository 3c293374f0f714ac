"""What a bookie knows of one ledger besides its entries: its fence and its last-add-confirmed."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import Enum

from .wire.messages import LacStatement


class Fence(Enum):
    """NONE → PENDING when the fence record is submitted → DURABLE when it is on disk (rule R1)."""

    NONE = 0
    PENDING = 1
    DURABLE = 2


_ROW = struct.Struct("<BBqqH")
_ROW_VERSION = 1
_FENCED = 1
_KNOWN = 2
_HAS_LAC = 4


@dataclass(slots=True)
class LedgerState:
    """Mutable, owned by the bookie's event loop.

    `known`: at least one entry of it was ever stored here.
    """

    ledger_id: int
    fence: Fence = Fence.NONE
    known: bool = False
    last_add_confirmed: LacStatement | None = None
    waiting_for_fence: list[object] = field(default_factory=list)

    def note_lac(self, statement: LacStatement | None) -> bool:
        """Keeps the higher statement; says whether it rose."""
        held = self.last_add_confirmed
        if statement is None or (held is not None and held.last_entry >= statement.last_entry):
            return False
        self.last_add_confirmed = statement
        return True

    def encode(self) -> bytes:
        """The row kept in the index: what survives a restart. A pending fence is not yet a fence."""
        lac = self.last_add_confirmed
        flags = (_FENCED if self.fence is Fence.DURABLE else 0) | (_KNOWN if self.known else 0)
        flags |= _HAS_LAC if lac else 0
        fixed = _ROW.pack(
            _ROW_VERSION,
            flags,
            lac.last_entry if lac else -1,
            lac.length_bytes if lac else 0,
            len(lac.digest) if lac else 0,
        )
        return fixed + (lac.digest if lac else b"")

    @classmethod
    def decode(cls, ledger_id: int, row: bytes) -> LedgerState:
        version, flags, lac, lac_length, digest_bytes = _ROW.unpack_from(row)
        if version != _ROW_VERSION or len(row) != _ROW.size + digest_bytes:
            raise ValueError(f"the index row of ledger {ledger_id} cannot be used; rebuild the index")
        statement = LacStatement(lac, lac_length, bytes(row[_ROW.size :])) if flags & _HAS_LAC else None
        return cls(
            ledger_id=ledger_id,
            fence=Fence.DURABLE if flags & _FENCED else Fence.NONE,
            known=bool(flags & _KNOWN),
            last_add_confirmed=statement,
        )
