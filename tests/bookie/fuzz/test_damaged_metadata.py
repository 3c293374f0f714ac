"""Whatever became of a record in the metadata store: it is one that may be written, or BadRecord (M1)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from metadata import keys
from metadata.errors import BadRecord
from metadata.memory import MemoryStore
from metadata.records import ledger_codec, ledger_ids
from metadata.records import records_pb2 as pb
from metadata.records.cluster import Cookie
from metadata.records.ledger_record import (
    BookieRef,
    DigestType,
    Fragment,
    LedgerRecord,
    LedgerState,
    Shape,
    Tombstone,
)
from metadata.records.registration import Registration, decode
from tests.bookie.fuzz.mutations import Change, changed, changes
from tests.support.aio import run

KEY = keys.ledger(7)
ENSEMBLE = tuple(BookieRef(name, f"incarnation-{name}") for name in ("b1", "b2", "b3"))
OPEN = LedgerRecord(7, Shape(3, 2, 2), (Fragment(0, ENSEMBLE),), nonce=b"n" * 16, verifier=b"v" * 32)
CLOSED = LedgerRecord(
    7,
    Shape(3, 3, 2),
    (Fragment(0, ENSEMBLE), Fragment(12, ENSEMBLE[::-1], 1200)),
    LedgerState.CLOSED,
    DigestType.HMAC_SHA256,
    last_entry=20,
    length_bytes=2000,
    custom_metadata={"application": b"journal", "": b""},
    created_ms=1_700_000_000_000,
    reserved=True,
)
COOKIE = Cookie("cluster", "b1", "incarnation-b1")
REGISTRATION = Registration(ENSEMBLE[0], "127.0.0.1:3181", "/room/rack", session=b"s" * 32)

i64 = st.integers(-(2**63), 2**63 - 1)
u32 = st.integers(0, 4) | st.integers(0, 2**32 - 1)
names = st.sampled_from(["", "b1", "b2", "b3", "../b4", "ä"])
pb_fragments = st.builds(
    pb.Fragment,
    first_entry=st.integers(-2, 20) | i64,
    ensemble=st.lists(st.builds(pb.BookieRef, bookie_id=names, incarnation=names), max_size=4),
    length_before=i64,
)
pb_ledgers = st.builds(
    pb.Ledger,
    format_version=st.just(1) | u32,
    ensemble_size=u32,
    write_quorum=u32,
    ack_quorum=u32,
    digest_type=st.integers(0, 4),
    state=st.integers(0, 6),
    last_entry=st.integers(-3, 20) | i64,
    length_bytes=st.integers(-3, 20) | i64,
    fragments=st.lists(pb_fragments, max_size=4),
    custom_metadata=st.dictionaries(names, st.binary(max_size=4), max_size=2),
    created_ms=i64,
    nonce=st.binary(max_size=20),
    reserved=st.booleans(),
    verifier=st.binary(max_size=40),
)


def may_be_written(record: LedgerRecord) -> bool:
    """Whether it comes back as it is, and says what a ledger can be."""
    comes_back = ledger_codec.decode(KEY, ledger_codec.encode(record)) == record
    closed = record.last_entry is not None and record.length_bytes is not None
    return comes_back and closed == record.is_closed


@given(st.sampled_from([OPEN, CLOSED]), changes())
def test_a_changed_ledger_record_is_one_that_may_be_written_or_bad(
    record: LedgerRecord, by: tuple[Change, ...]
) -> None:
    check_ledger_record(changed(ledger_codec.encode(record), by))


@given(st.binary(max_size=100) | pb_ledgers.map(pb.Ledger.SerializeToString))
@example(b"")
@example(ledger_codec.encode_tombstone(b"nonce"))
def test_any_ledger_record_is_one_that_may_be_written_or_bad(data: bytes) -> None:
    check_ledger_record(data)


def check_ledger_record(data: bytes) -> None:
    try:
        record = ledger_codec.decode(KEY, data)
    except BadRecord:
        return
    assert isinstance(record, Tombstone) or may_be_written(record)


@given(st.integers(-3, 3) | i64, st.integers(-3, 3) | i64)
def test_a_closed_ledger_never_ends_before_its_beginning(last_entry: int, length_bytes: int) -> None:
    message = pb.Ledger.FromString(ledger_codec.encode(CLOSED))
    message.last_entry, message.length_bytes = last_entry, length_bytes
    try:
        record = ledger_codec.decode(KEY, message.SerializeToString())
    except BadRecord:
        return
    assert isinstance(record, LedgerRecord)
    assert record.last_entry is not None and record.length_bytes is not None
    assert (record.last_entry >= -1, record.length_bytes >= 0) == (True, True)


DECODERS: list[tuple[Callable[[str, bytes], object], bytes]] = [
    (Cookie.decode, COOKIE.encode()),
    (decode, REGISTRATION.encode()),
]


@pytest.mark.parametrize(("decode", "whole"), DECODERS, ids=["cookie", "registration"])
@given(data=st.data())
def test_a_changed_cookie_or_registration_comes_back_as_it_is_or_is_bad(
    decode: Callable[[str, bytes], Cookie | Registration], whole: bytes, data: st.DataObject
) -> None:
    value = data.draw(changes().map(lambda by: changed(whole, by)) | st.binary(max_size=80))
    try:
        found = decode("where", value)
    except BadRecord:
        return
    assert decode("where", found.encode()) == found


@given(
    st.binary(max_size=40) | st.integers(0, 2**64 - 1).map(lambda n: pb.NextId(next_id=n).SerializeToString())
)
@example(b"")
@example(pb.NextId(next_id=2**63 - 1).SerializeToString())
@example(pb.NextId(next_id=2**64 - 1).SerializeToString())
def test_a_counter_gives_an_id_that_a_ledger_can_have_or_is_bad(value: bytes) -> None:
    async def take() -> int:
        store = MemoryStore()
        await store.create(keys.NEXT_LEDGER_ID, value)
        return await ledger_ids.next_ledger_id(store)

    try:
        taken = run(take())
    except BadRecord:
        return
    assert ledger_ids.FIRST_LEDGER_ID <= taken <= keys.LEDGER_ID_MAX
