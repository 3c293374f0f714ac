"""The parameters of a new ledger, validated once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self, TypedDict

from metadata.records.ledger_record import CUSTOM_METADATA_BYTES_MAX, DigestType, Shape

from ..entry import check_bytes


class LedgerArguments(TypedDict, total=False):
    """The arguments of `create_ledger`, all optional."""

    ensemble_size: int
    write_quorum: int | None
    ack_quorum: int | None
    ledger_id: int | None
    digest: DigestType
    password: bytes
    custom_metadata: Mapping[str, bytes]
    deferred_sync: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class NewLedger:
    """Shape and protection of a ledger to be created.

    The write quorum defaults to the ensemble size, the ack quorum to a majority of the write quorum. With a `password`,
    bookies and clients accept writes and recoveries only from clients that know it; with HMAC_SHA256, the password also
    signs every entry. With `deferred_sync`, an append returns once the entry is in the logs of an ack quorum, although
    a power failure may still remove it from them; `force` makes appended entries durable, and only then are they
    confirmed. A chosen `ledger_id` is never used again, not even after the ledger was deleted: bookies may still hold
    the old entries. Raises ValueError for values that contradict each other, TypeError for values of the wrong type.
    """

    ensemble_size: int = 3
    write_quorum: int | None = None
    ack_quorum: int | None = None
    ledger_id: int | None = None
    digest: DigestType = DigestType.CRC32C
    password: bytes = b""
    deferred_sync: bool = False
    custom_metadata: Mapping[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("ensemble_size", "write_quorum", "ack_quorum", "ledger_id"):
            if type(value := getattr(self, name)) not in (int, type(None)):
                raise TypeError(f"{name} must be an int, not {type(value).__name__}")
        _ = self.shape  # raises if the shape is impossible
        check_bytes("a password", self.password)
        if not isinstance(self.digest, DigestType):
            raise TypeError(f"the digest must be a DigestType, not {self.digest!r}")
        if _size_of(self.custom_metadata) > CUSTOM_METADATA_BYTES_MAX:
            raise ValueError(f"custom metadata exceeds {CUSTOM_METADATA_BYTES_MAX} bytes")
        if self.digest is DigestType.HMAC_SHA256 and not self.password:
            raise ValueError("an HMAC-SHA256 digest needs a password")
        if self.ledger_id is not None and not 0 <= self.ledger_id < 2**63:
            raise ValueError(f"{self.ledger_id} is not a valid ledger id: use one from 0 to {2**63 - 1}")

    @classmethod
    def of(cls, new: Self | None, arguments: LedgerArguments) -> Self:
        """Returns the given NewLedger, or one made from the arguments of `create_ledger`. Raises TypeError if both are
        given."""
        if new is not None and arguments:
            raise TypeError(f"pass a NewLedger or {', '.join(arguments)}, but not both")
        return new or cls(**arguments)

    @property
    def shape(self) -> Shape:
        """The ledger's shape, with defaults filled in."""
        writes = self.ensemble_size if self.write_quorum is None else self.write_quorum
        acks = writes // 2 + 1 if self.ack_quorum is None else self.ack_quorum
        return Shape(self.ensemble_size, writes, acks)


def _size_of(custom_metadata: Mapping[str, bytes]) -> int:
    if not isinstance(custom_metadata, Mapping):
        raise TypeError(f"custom metadata must map names to bytes, not {custom_metadata!r:.80}")
    for name, value in custom_metadata.items():
        if not isinstance(name, str) or not isinstance(value, bytes):
            raise TypeError(f"custom metadata must map names to bytes, but {name!r} maps to {value!r:.80}")
        if not name.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in name):
            raise ValueError(f"the name {name!r} is not valid UTF-8")
    return sum(len(name.encode()) + len(value) for name, value in custom_metadata.items())
