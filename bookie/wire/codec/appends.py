"""Encodes and decodes appends (frames of entries) and their acknowledgements, in fields of fixed width.

Protobuf is not used here because messages account for most of the cost of a small append, and protobuf builds and
parses a message field by field. Numbers are little-endian:

    request  incarnation_bytes u16, frames u16, note_frames u16, first_sequence u64, incarnation, frames, note_frames
    frame    the fields of `_FRAME`; then, if present: the LAC's digest, verifier, proof, identity, trace, note
    reply    for each frame: sequence u64, status u16 (numbers of bookie.proto), detail_bytes u32, detail in UTF-8
"""

from __future__ import annotations

import struct

from metadata.records.ledger_record import IDENTITY_BYTES
from metadata.records.notes.fragment_note import NOTE_BYTES_MAX

from ..attachments import BadMessage, Sealed, Unsealed, sealed_bytes, unsealed_alone
from ..columnar_entries import NO_ENTRIES, Columns
from ..messages import (
    NO_CREDENTIAL,
    NO_IDENTITY,
    NO_NOTE,
    NO_TRACE,
    PROOF_BYTES,
    VERIFIER_BYTES,
    Ack,
    AppendReply,
    AppendRequest,
    Credential,
    Frame,
    LacStatement,
    new_ack,
    new_frame,
    new_reply,
)
from .parts import STATUS_FROM_PB, STATUS_TO_PB, Body, Codec, checked_lac

FRAMES_MAX = 1024
"""Maximum number of frames per message; clients never send more. Limited because a bookie's other clients wait while it
decodes a message."""

APPEND_HEADER_BYTES_MAX = 512 * 1024
"""Maximum size of a header; FRAMES_MAX frames need half of this. Limited because each decoded frame takes up memory."""

SEQUENCES_MAX = 1 << 64
"""Exclusive upper bound on the sequence numbers of frames on one connection: larger numbers do not fit in an
acknowledgement."""

_REQUEST = struct.Struct("<HHHQ")

_FRAME = struct.Struct("<qqqIIIIBBB")
"""Fixed-width fields of a frame: ledger id; LAC, and the ledger's size in bytes through the LAC; number of entries;
sizes in bytes of the entries' digests, their payload, the note, the LAC's digest and the trace; flags."""

_ACK = struct.Struct("<QHI")
_FRAME_BYTES, _ACK_BYTES = _FRAME.size, _ACK.size

_RECOVERY, _DEFERRED_SYNC, _HAS_LAC, _HAS_CREDENTIAL, _HAS_IDENTITY = (1 << n for n in range(5))
_FLAGS_END = 1 << 5

_NO_LAC = LacStatement(0, 0, b"")
_CREDENTIAL_BYTES = VERIFIER_BYTES + PROOF_BYTES


def _encode_request(request: AppendRequest) -> Sealed:
    incarnation, first_sequence, frames, note_frames = request
    name = incarnation.encode()
    parts = [_REQUEST.pack(len(name), len(frames), len(note_frames), first_sequence), name]
    attached: list[Columns] = []
    for frame in frames + note_frames:
        ledger_id, columns, lac, recovery, credential, deferred_sync, trace, identity, note = frame
        flags = (_RECOVERY if recovery else 0) | (_DEFERRED_SYNC if deferred_sync else 0)
        flags |= (_HAS_LAC if lac else 0) | (_HAS_IDENTITY if identity else 0)
        last_entry, length_bytes, digest = lac or _NO_LAC
        if credential.verifier:
            flags |= _HAS_CREDENTIAL
        # fmt: off
        fixed = _FRAME.pack(
            ledger_id, last_entry, length_bytes, len(columns), len(columns.digests), len(columns.payload),
            len(note), len(digest), len(trace), flags,
        )
        # fmt: on
        parts += (fixed, digest, *credential, identity, trace, note)
        attached.append(columns)
    return sealed_bytes(b"".join(parts), attached)


def _decode_request(data: Body) -> AppendRequest:
    """Decodes a request. Raises BadMessage."""
    body = Unsealed(data)
    header = bytes(body.header)
    if len(header) > APPEND_HEADER_BYTES_MAX:
        raise BadMessage(f"a header of {len(header)} bytes; the limit is {APPEND_HEADER_BYTES_MAX}")
    try:
        name_bytes, frames, note_frames, first_sequence = _REQUEST.unpack_from(header)
        _check_count(frames, note_frames, first_sequence)
        at = _REQUEST.size + name_bytes
        incarnation = header[_REQUEST.size : at].decode()
        found: list[Frame] = []
        for _ in range(frames + note_frames):
            frame, at = _frame_at(at, header, body)
            found.append(frame)
        if not all(map(_is_note_only, found[frames:])):
            raise BadMessage("a note-only frame contains more than a note")
    except (struct.error, UnicodeDecodeError) as error:
        raise BadMessage(f"the header does not contain valid appends: {error}") from None
    if at != len(header):
        raise BadMessage(f"the header has {len(header)} bytes, but its fields take up {at}")
    body.end()
    return AppendRequest(incarnation, first_sequence, tuple(found[:frames]), tuple(found[frames:]))


def _frame_at(at: int, header: bytes, body: Unsealed) -> tuple[Frame, int]:
    """Decodes the frame that begins at this offset; returns the frame and its end. If the header is too short, the
    frame's byte strings are truncated, so the caller must compare the end with the header's."""
    # fmt: off
    (
        ledger_id, last_entry, length_bytes, entries, digests_bytes, payload_bytes,
        note_bytes, lac_digest_bytes, trace_bytes, flags,
    ) = _FRAME.unpack_from(header, at)
    # fmt: on
    if flags >= _FLAGS_END:
        raise BadMessage(f"a frame with invalid flags: {flags}")
    digest_at = at + _FRAME_BYTES
    at = digest_at + lac_digest_bytes
    lac = checked_lac(last_entry, length_bytes, header[digest_at:at]) if flags & _HAS_LAC else None
    credential, identity, trace, note = NO_CREDENTIAL, NO_IDENTITY, NO_TRACE, NO_NOTE
    if flags & _HAS_CREDENTIAL:
        proof_at = at + VERIFIER_BYTES
        credential = Credential(header[at:proof_at], header[proof_at : proof_at + PROOF_BYTES])
        at += _CREDENTIAL_BYTES
    if flags & _HAS_IDENTITY:
        identity = header[at : at + IDENTITY_BYTES]
        at += IDENTITY_BYTES
    if trace_bytes:
        trace = header[at : at + trace_bytes]
        at += trace_bytes
    if note_bytes:
        note = header[at : at + note_bytes]
        at += note_bytes
    _check_frame(ledger_id, note)
    has_columns = entries or digests_bytes or payload_bytes
    columns = body.columns(entries, digests_bytes, payload_bytes) if has_columns else NO_ENTRIES
    whose = bool(flags & _RECOVERY), credential, bool(flags & _DEFERRED_SYNC), trace, identity
    return new_frame((ledger_id, columns, lac, *whose, note)), at


def _is_note_only(frame: Frame) -> bool:
    """Returns whether a frame contains only a note and the ledger's credential and identity."""
    return not (len(frame.columns) or frame.last_add_confirmed or frame.deferred_sync or frame.trace)


def _check_count(frames: int, note_frames: int, first_sequence: int) -> None:
    """Raises BadMessage if there are too many frames, or not enough sequence numbers to acknowledge them."""
    if frames + note_frames > FRAMES_MAX:
        raise BadMessage(f"{frames + note_frames} frames in one message; the limit is {FRAMES_MAX}")
    if first_sequence + frames > SEQUENCES_MAX:
        raise BadMessage(f"{frames} frames numbered from {first_sequence} on: the last number is too large")


def _check_frame(ledger_id: int, note: bytes) -> None:
    """Raises BadMessage if the ledger id or the note is not valid."""
    if ledger_id < 0:
        raise BadMessage(f"{ledger_id} is not a ledger id")
    if len(note) > NOTE_BYTES_MAX:
        raise BadMessage(f"a note of {len(note)} bytes; the limit is {NOTE_BYTES_MAX}")


def _encode_reply(reply: AppendReply) -> Sealed:
    parts: list[bytes] = []
    for sequence, status, detail in reply.acks:
        text = detail.encode()
        parts += (_ACK.pack(sequence, STATUS_TO_PB[status], len(text)), text)
    return sealed_bytes(b"".join(parts))


def _decode_reply(data: Body) -> AppendReply:
    """Decodes a reply. Raises BadMessage."""
    header = unsealed_alone(data)
    acks: list[Ack] = []
    at, end = 0, len(header)
    try:
        while at < end:
            sequence, status, detail_bytes = _ACK.unpack_from(header, at)
            at += _ACK_BYTES
            detail = ""
            if detail_bytes:
                detail = header[at : at + detail_bytes].decode()
                at += detail_bytes
            acks.append(new_ack((sequence, STATUS_FROM_PB[status], detail)))
    except KeyError as error:
        raise BadMessage(f"unknown status {error}") from None
    except (struct.error, UnicodeDecodeError) as error:
        raise BadMessage(f"the header does not contain valid acknowledgements: {error}") from None
    if at != end:
        raise BadMessage(f"the header has {end} bytes, but its fields take up {at}")
    return new_reply((tuple(acks),))


APPENDS = {
    AppendRequest: Codec(_encode_request, _decode_request),
    AppendReply: Codec(_encode_reply, _decode_reply),
}
