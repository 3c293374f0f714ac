"""A ledger's state on a bookie, apart from its entries: fence, last-add-confirmed, verifier, identity, limbo."""

from __future__ import annotations

import hmac
import struct
from dataclasses import dataclass, field
from enum import Enum

from metadata.records.ledger_record import IDENTITY_BYTES

from ..wire.messages import VERIFIER_BYTES, LacStatement


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
_HAS_VERIFIER = 8
_VERIFIER_UNKNOWN = 16
_LIMBO = 32
_HAS_IDENTITY = 64
_IDENTITY_UNKNOWN = 128


@dataclass(slots=True)
class LocalLedgerState:
    """Mutable; belongs to the bookie's event loop.

    `known`: whether any entry of the ledger was ever stored here. `verifier`: the public key that proofs for writes and
    fences are checked against, b"" if no proof is required, None if not known yet. `limbo`: whether part of the ledger
    may have been lost here, in which case absent entries are UNKNOWN (rule R6). `identity`: distinguishes the ledger
    from others with the same id; None if not known yet (rule W8).
    """

    ledger_id: int
    fence: Fence = Fence.NONE
    known: bool = False
    last_add_confirmed: LacStatement | None = None
    verifier: bytes | None = None
    limbo: bool = False
    identity: bytes | None = None
    writer_address: str = ""
    """Address from which the ledger's writer last sent a message, for operators. Kept only in memory; "" if unknown."""
    waiting_for_fence: list[object] = field(default_factory=list)
    verifier_in_log: bytes | None = None
    """The verifier that replay found in the log. It authorizes no writes, because the ledger may have been forgotten
    since then."""

    @property
    def readers_verifier(self) -> bytes:
        """The verifier that a reader's proof must match; b"" if anyone may read."""
        return (self.verifier_in_log if self.verifier is None else self.verifier) or b""

    def note_lac(self, statement: LacStatement | None) -> bool:
        """Keeps the new statement if it is higher than the previous one; returns whether the last-add-confirmed has
        increased."""
        held = self.last_add_confirmed
        if statement is None or (held is not None and held.last_entry >= statement.last_entry):
            return False
        self.last_add_confirmed = statement
        return True

    def admits(self, verifier: bytes) -> bool:
        """Returns whether this is the ledger's verifier. Adopts it if the ledger has none yet."""
        if self.verifier is None:
            self.verifier = verifier
        return hmac.compare_digest(self.verifier, verifier)

    def learn(self, verifier: bytes, identity: bytes) -> None:
        """Adopts the verifier and the identity from the ledger's record if they are not known yet."""
        self.admits(verifier)
        if self.identity is None:
            self.identity = identity

    def is_another(self, identity: bytes) -> bool:
        """Returns whether the ledger stored here has a different identity, and so is a different ledger with the same
        id (rule W8)."""
        return self.identity is not None and self.identity != identity

    def identity_mismatch(self, identity: bytes) -> str:
        """Returns an error message if the identity in a request does not match the ledger's; otherwise ""."""
        if not self.is_another(identity):
            return ""
        return (
            f"ledger {self.ledger_id} on this bookie is not the one requested: the metadata was restored from an "
            "older copy, or belongs to another cluster; to check it: bookledger metadata check"
        )

    def encode(self) -> bytes:
        """Encodes the state as a row of the index, which survives a restart. A pending fence is encoded as no fence."""
        lac, verifier = self.last_add_confirmed, self.verifier or b""
        flags = (_FENCED if self.fence is Fence.DURABLE else 0) | (_KNOWN if self.known else 0)
        flags |= (_HAS_LAC if lac else 0) | (_HAS_VERIFIER if verifier else 0)
        flags |= (_VERIFIER_UNKNOWN if self.verifier is None else 0) | (_LIMBO if self.limbo else 0)
        flags |= (_IDENTITY_UNKNOWN if self.identity is None else 0) | (_HAS_IDENTITY if self.identity else 0)
        fixed = _ROW.pack(
            _ROW_VERSION,
            flags,
            lac.last_entry if lac else -1,
            lac.length_bytes if lac else 0,
            len(lac.digest) if lac else 0,
        )
        return fixed + (lac.digest if lac else b"") + verifier + (self.identity or b"")

    def absorb(self, written: LocalLedgerState) -> None:
        """Merges a state record from the log: a fence is never lifted, the last-add-confirmed never decreases, and
        limbo is set to the record's value."""
        if written.fence is Fence.DURABLE:
            self.fence = Fence.DURABLE
        if self.verifier is None:
            self.verifier = written.verifier
        if self.identity is None:
            self.identity = written.identity
        self.known |= written.known
        self.limbo = written.limbo
        self.note_lac(written.last_add_confirmed)

    @classmethod
    def decode(cls, ledger_id: int, row: bytes) -> LocalLedgerState:
        """Decodes a row. Raises ValueError if it is corrupt."""
        if len(row) < _ROW.size:
            raise ValueError(f"the state of ledger {ledger_id} is truncated")
        version, flags, lac, lac_length, digest_bytes = _ROW.unpack_from(row)
        verifier_bytes = VERIFIER_BYTES if flags & _HAS_VERIFIER else 0
        lac_end = _ROW.size + digest_bytes
        verifier_end = lac_end + verifier_bytes
        row_end = verifier_end + (IDENTITY_BYTES if flags & _HAS_IDENTITY else 0)
        if version != _ROW_VERSION or len(row) != row_end:
            raise ValueError(f"the state of ledger {ledger_id} cannot be read")
        digest = bytes(row[_ROW.size : lac_end])
        statement = LacStatement(lac, lac_length, digest) if flags & _HAS_LAC else None
        return cls(
            ledger_id=ledger_id,
            fence=Fence.DURABLE if flags & _FENCED else Fence.NONE,
            known=bool(flags & _KNOWN),
            last_add_confirmed=statement,
            verifier=None if flags & _VERIFIER_UNKNOWN else bytes(row[lac_end:verifier_end]),
            limbo=bool(flags & _LIMBO),
            identity=None if flags & _IDENTITY_UNKNOWN else bytes(row[verifier_end:]),
        )
