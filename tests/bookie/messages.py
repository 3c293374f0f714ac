"""Hypothesis strategies for everything the wire carries."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from crc32c import crc32c
from hypothesis import strategies as st

from bookie.wire.columnar_entries import Columns
from bookie.wire.messages import (
    NO_CREDENTIAL,
    PROOF_BYTES,
    VERIFIER_BYTES,
    Ack,
    AppendReply,
    AppendRequest,
    Credential,
    EntryRange,
    Frame,
    HeldNote,
    Holding,
    HoldingsReply,
    HoldingsRequest,
    InfoReply,
    LacReply,
    LacRequest,
    LacStatement,
    MaintainReply,
    MaintainRequest,
    MaintenanceAction,
    NotesReply,
    NotesRequest,
    ReadReply,
    ReadRequest,
    ScanRequest,
    Status,
)
from metadata.records.ledger_record import IDENTITY_BYTES
from metadata.records.notes.fragment_note import Headline
from tests.bookie.entries import columns_of

i64 = st.integers(-(2**63), 2**63 - 1)
natural = st.integers(0, 2**63 - 1)
u64 = st.integers(0, 2**64 - 1)
u32 = st.integers(0, 2**32 - 1)
text = st.text(max_size=12)
statuses = st.sampled_from(Status)


@st.composite
def some_columns(draw: st.DrawFn) -> Columns:
    width = draw(st.sampled_from([0, 4, 32]))
    ids = sorted(draw(st.sets(natural, max_size=6)))
    return columns_of(
        [(i, draw(st.binary(max_size=12)), draw(st.binary(min_size=width, max_size=width))) for i in ids]
    )


lac_statements = st.builds(LacStatement, st.integers(-1, 2**63 - 1), natural, st.binary(max_size=64))
maybe_lac = st.none() | lac_statements
credentials = st.just(NO_CREDENTIAL) | st.builds(
    Credential,
    st.binary(min_size=VERIFIER_BYTES, max_size=VERIFIER_BYTES),
    st.binary(min_size=PROOF_BYTES, max_size=PROOF_BYTES),
)
traces = st.binary(max_size=30)
identities = st.just(b"") | st.binary(min_size=IDENTITY_BYTES, max_size=IDENTITY_BYTES)
notes = st.binary(max_size=40)
frames = st.builds(
    Frame,
    natural,
    some_columns(),
    maybe_lac,
    st.booleans(),
    credentials,
    st.booleans(),
    traces,
    identities,
    notes,
)
note_frames = frames.map(
    lambda frame: Frame(
        frame.ledger_id,
        recovery=frame.recovery,
        credential=frame.credential,
        identity=frame.identity,
        note=frame.note,
    )
)
append_requests = st.builds(
    AppendRequest,
    text,
    st.integers(0, 2**64 - 3),
    st.lists(frames, max_size=3).map(tuple),
    st.lists(note_frames, max_size=3).map(tuple),
)
append_replies = st.builds(AppendReply, st.lists(st.builds(Ack, u64, statuses, text), max_size=3).map(tuple))
read_requests = st.builds(
    ReadRequest, text, i64, i64, i64, u32, st.booleans(), credentials, traces, st.booleans(), identities
)
scan_requests = st.builds(ScanRequest, text, i64, i64, i64, u32, u64, credentials, identities)
read_replies = st.builds(
    ReadReply,
    statuses,
    some_columns(),
    i64,
    st.lists(st.builds(EntryRange, i64, i64), max_size=3).map(tuple),
    maybe_lac,
    text,
)
lac_requests = st.builds(LacRequest, text, i64, st.booleans(), i64, u32, credentials, traces, identities)
headlines = st.builds(Headline, natural, u32, st.booleans())
lac_replies = st.builds(LacReply, statuses, maybe_lac, text, natural, st.none() | headlines)
holdings_requests = st.builds(HoldingsRequest, text, i64, i64, i64, u64, identities)
runs = st.tuples(natural, natural, u64, u64).map(
    lambda run: Holding(min(run[:2]), max(run[:2]), run[2], run[3])
)
holdings_replies = st.builds(HoldingsReply, statuses, st.lists(runs, max_size=4).map(tuple), i64, text)
notes_requests = st.builds(NotesRequest, text, natural, natural)
notes_replies = st.builds(
    NotesReply,
    statuses,
    st.lists(st.builds(HeldNote, natural, natural, identities, notes), min_size=1, max_size=3).map(tuple),
    st.booleans(),
    text,
)
maintain_requests = st.builds(MaintainRequest, st.sampled_from(MaintenanceAction), text)
maintain_replies = st.builds(MaintainReply, statuses, text, text)
info_replies = st.builds(InfoReply, text, text, text, text, u64, u64, u64, u64, u64, st.booleans())


def whole(parts: Iterable[bytes | memoryview]) -> bytes:
    """A message as it travels."""
    return b"".join(parts)


def with_checksum(body: bytes) -> bytes:
    """These bytes behind the checksum that fits them."""
    return struct.pack("<I", crc32c(body, crc32c(b"bookledger message 1"))) + body
