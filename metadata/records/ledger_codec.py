"""Encodes and decodes ledger records and tombstones."""

from __future__ import annotations

from collections.abc import Iterable

from google.protobuf.message import DecodeError

from .. import keys
from ..errors import BadRecord
from ..version import encode_record
from . import records_pb2 as pb
from .cold.cold_copy import ColdCopy
from .ledger_record import (
    AcceptedLoss,
    BookieRef,
    DigestType,
    Fragment,
    Lacking,
    LedgerRecord,
    LedgerState,
    Shape,
    Tombstone,
)

FORMAT_VERSION = 1

_STATE_TO_PB = {
    LedgerState.OPEN: pb.OPEN,
    LedgerState.IN_RECOVERY: pb.IN_RECOVERY,
    LedgerState.CLOSED: pb.CLOSED,
}
_STATE_FROM_PB = {number: state for state, number in _STATE_TO_PB.items()}
DIGEST_TO_PB = {DigestType.CRC32C: pb.CRC32C, DigestType.HMAC_SHA256: pb.HMAC_SHA256}
DIGEST_FROM_PB = {number: digest for digest, number in DIGEST_TO_PB.items()}


def encode(record: LedgerRecord) -> bytes:
    """Encodes the value of `ledgers/<id>`. The identity comes before the nonce, because earlier programs compare it."""
    message = to_message(record)
    message.ClearField("identity")
    return pb.Ledger(identity=record.identity).SerializeToString() + encode_record(message)


def to_message(record: LedgerRecord) -> pb.Ledger:
    return fill_message(pb.Ledger(), record, record.fragments)


def fill_message(message: pb.Ledger, record: LedgerRecord, fragments: Iterable[Fragment]) -> pb.Ledger:
    """Fills a message with the record and these fragments. Sets each field separately, because nested constructors take
    twice as long, and a ledger's writer encodes the record three times."""
    message.format_version = FORMAT_VERSION
    message.ensemble_size = record.shape.ensemble_size
    message.write_quorum = record.shape.write_quorum
    message.ack_quorum = record.shape.ack_quorum
    message.digest_type = DIGEST_TO_PB[record.digest_type]
    message.state = _STATE_TO_PB[record.state]
    message.last_entry = -1 if record.last_entry is None else record.last_entry
    message.length_bytes = record.length_bytes or 0
    if record.custom_metadata:
        message.custom_metadata.update(record.custom_metadata)
    if (cold := record.cold) is not None:
        message.cold.url, message.cold.key, message.cold.at_ms = cold.url, cold.key, cold.at_ms
        message.cold.part_starts.extend(cold.part_starts)
        message.cold.size_bytes = cold.size_bytes
    message.cold_version = record.cold_version
    if record.accepted_loss is not None:
        _loss_to(record.accepted_loss, message.accepted_loss)
    message.created_ms = record.created_ms
    message.closed_ms = record.closed_ms
    message.nonce = record.nonce
    message.reserved = record.reserved
    message.verifier = record.verifier
    message.password_salt = record.password_salt
    message.identity = record.identity
    message.written_at = record.written_at
    for bookie in record.also_at:
        message.also_at.add(bookie_id=bookie.bookie_id, incarnation=bookie.incarnation)
    for fragment in fragments:
        _fragment_to(fragment, message.fragments.add())
    return message


def _fragment_to(fragment: Fragment, message: pb.Fragment) -> None:
    message.first_entry = fragment.first_entry
    message.length_before = fragment.length_before
    message.number = fragment.number
    for bookie in fragment.ensemble:
        ref = message.ensemble.add()
        ref.bookie_id, ref.incarnation = bookie.bookie_id, bookie.incarnation
    for one in fragment.lacking:
        message.lacking.add(position=one.position, first_entry=one.first_entry, last_entry=one.last_entry)


def _loss_to(loss: AcceptedLoss, message: pb.AcceptedLoss) -> None:
    message.at_ms, message.by, message.proven_through = loss.at_ms, loss.by, loss.proven_through
    for named, bookies in ((message.missing, loss.missing), (message.to_fence, loss.to_fence)):
        named.extend(pb.BookieRef(bookie_id=b.bookie_id, incarnation=b.incarnation) for b in bookies)


def encode_tombstone(nonce: bytes, identity: bytes = b"", *, is_of_log: bool = False) -> bytes:
    """Encodes a tombstone. It prevents a deleted ledger's id from being assigned again, and the ledger from being
    created again by a late request."""
    message = pb.Ledger(format_version=FORMAT_VERSION, state=pb.DELETED, nonce=nonce, identity=identity)
    message.of_log = is_of_log
    return encode_record(message)


def state_of(value: bytes) -> LedgerState | None:
    """Returns only the state of a record, in a twentieth of the time that `decode` takes; None for a tombstone or a
    value that cannot be parsed."""
    try:
        return _STATE_FROM_PB.get(pb.Ledger.FromString(value).state)
    except DecodeError:
        return None


def decode(key: str, value: bytes) -> LedgerRecord | Tombstone:
    """Decodes a ledger's record or tombstone. Raises BadRecord if it cannot be trusted."""
    try:
        message = pb.Ledger.FromString(value)
        if message.format_version != FORMAT_VERSION:
            raise ValueError(
                f"format version {message.format_version}; this program supports {FORMAT_VERSION}"
            )
        if message.state == pb.DELETED:
            return Tombstone(keys.ledger_id_of(key), message.identity, is_of_log=message.of_log)
        return from_message(keys.ledger_id_of(key), message)
    except (DecodeError, ValueError, KeyError) as error:
        raise BadRecord(key, str(error)) from error


def _loss_in(message: pb.Ledger) -> AcceptedLoss | None:
    if not message.HasField("accepted_loss"):
        return None
    loss = message.accepted_loss
    missing, to_fence = (
        tuple(BookieRef(b.bookie_id, b.incarnation) for b in bookies)
        for bookies in (loss.missing, loss.to_fence)
    )
    return AcceptedLoss(loss.at_ms, loss.by, loss.proven_through, missing, to_fence)


def from_message(ledger_id: int, message: pb.Ledger) -> LedgerRecord:
    """Creates a record from a message. Raises ValueError or KeyError if the message cannot be trusted."""
    closed = message.state == pb.CLOSED
    return LedgerRecord(
        ledger_id=ledger_id,
        shape=Shape(message.ensemble_size, message.write_quorum, message.ack_quorum),
        fragments=tuple(
            Fragment(
                f.first_entry,
                tuple(BookieRef(b.bookie_id, b.incarnation) for b in f.ensemble),
                f.length_before,
                tuple(Lacking(one.position, one.first_entry, one.last_entry) for one in f.lacking),
                f.number,
            )
            for f in message.fragments
        ),
        state=_STATE_FROM_PB[message.state],
        digest_type=DIGEST_FROM_PB[message.digest_type],
        last_entry=message.last_entry if closed else None,
        length_bytes=message.length_bytes if closed else None,
        custom_metadata=dict(message.custom_metadata),
        created_ms=message.created_ms,
        closed_ms=message.closed_ms if closed else 0,
        nonce=message.nonce,
        reserved=message.reserved,
        verifier=message.verifier,
        password_salt=message.password_salt,
        identity=message.identity,
        accepted_loss=_loss_in(message),
        written_at=message.written_at,
        also_at=tuple(BookieRef(b.bookie_id, b.incarnation) for b in message.also_at),
        cold=_cold_in(message),
        cold_version=message.cold_version,
    )


def _cold_in(message: pb.Ledger) -> ColdCopy | None:
    if not message.HasField("cold"):
        return None
    cold = message.cold
    return ColdCopy(cold.url, cold.key, tuple(cold.part_starts), cold.size_bytes, cold.at_ms)
