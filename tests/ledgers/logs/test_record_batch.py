"""The records of a log in the entries of its segments: what comes back, what it costs, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie.wire import Columns, of_payloads
from ledgers import NewRecord, Record, RecordUnreadable
from ledgers.logs import record_batch
from ledgers.logs.record_batch import (
    HEAD_BYTES,
    HEADER_NAME_BYTES_MAX,
    HEADER_VALUE_BYTES_MAX,
    HEADERS_MAX,
    KEY_BYTES_MAX,
    SEQUENCE_MAX,
    Numbered,
    decode,
)

NOON = 1_700_000_000_000_000
TIMES = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
FIELDS: dict[str, st.SearchStrategy[object]] = {
    "payload": st.binary(max_size=50),
    "key": st.none() | st.binary(max_size=20),
    "headers": st.dictionaries(NAMES, st.binary(max_size=20), max_size=4),
    "event_time": st.none() | TIMES,
}
NEW_RECORDS: st.SearchStrategy[NewRecord] = st.builds(NewRecord, **FIELDS) | st.builds(
    Numbered, **FIELDS, producer=NAMES, sequence=st.integers(0, SEQUENCE_MAX)
)


def encode(records: Sequence[bytes | NewRecord], time: int) -> list[bytes]:
    return record_batch.encode(records, time).entries()


def of(new: NewRecord, position: int, time: int) -> Record:
    """The record as readers get it."""
    record = Record(position, new.payload, time, new.key, new.headers, new.event_time)
    if isinstance(new, Numbered):
        return record._replace(producer=new.producer, sequence=new.sequence)
    return record


def entries(encoded: Sequence[bytes], first_entry: int = 0) -> Columns:
    return of_payloads(first_entry, encoded, bytes(4 * len(encoded)))


def decoded(encoded: Sequence[bytes], first_entry: int = 0, segment_start: int = 0) -> list[Record]:
    return decode(entries(encoded, first_entry), segment_start=segment_start).records()


@given(st.lists(st.binary(max_size=50) | NEW_RECORDS, max_size=8), TIMES, st.integers(0, 2**40))
def test_records_come_back_as_they_were_appended(
    batch: list[bytes | NewRecord], time: int, first_entry: int
) -> None:
    in_full = [new if isinstance(new, NewRecord) else NewRecord(new) for new in batch]
    assert decoded(encode(batch, time), first_entry, 1000) == [
        of(new, 1000 + first_entry + n, time) for n, new in enumerate(in_full)
    ]


def test_a_bare_payload_costs_ten_bytes() -> None:
    assert [len(entry) for entry in encode([b"", b"x" * 100], NOON)] == [10, 110]
    assert [len(entry) for entry in encode([NewRecord(b"x" * 100)], NOON)] == [110]
    assert HEAD_BYTES == 10


def test_the_bytes_of_a_record_are_those_of_the_picture() -> None:
    new = NewRecord(b"payload", key=b"k", headers={"é": b"v"}, event_time=-1)
    version_and_fields, time, event_time = b"\x01\x07", b"\x02" + bytes(7), b"\xff" * 8
    key, headers = b"\x01\x00k", b"\x01\x02\xc3\xa9\x01\x00v"
    assert encode([new, b"p", Numbered(b"p", producer="é", sequence=3)], 2) == [
        version_and_fields + time + event_time + key + headers + b"payload",
        b"\x01\x00" + time + b"p",
        b"\x01\x08" + time + b"\x02\xc3\xa9\x03" + bytes(7) + b"p",
    ]


def test_an_empty_key_is_another_one_than_none() -> None:
    assert [record.key for record in decoded(encode([NewRecord(b"", key=b""), b""], NOON))] == [b"", None]


def test_the_headers_of_one_record_are_not_those_of_another() -> None:
    first, second = decoded(encode([b"a", b"b"], NOON))
    assert first.headers is not second.headers


def test_the_batch_has_its_columns_without_an_object_for_each_record() -> None:
    batch = decode(entries(encode([b"a", NewRecord(b"b", key=b"k")], NOON), 5), segment_start=10)
    assert (list(batch.positions), list(batch.payloads)) == ([15, 16], [b"a", b"b"])
    assert (list(batch.times), list(batch.keys), len(batch)) == ([NOON, NOON], [None, b"k"], 2)


def test_a_part_of_a_batch_is_the_batch_of_these_records() -> None:
    batch = decode(entries(encode([b"a", NewRecord(b"b", key=b"k"), b"c"], NOON)), segment_start=10)
    assert batch.cut(1, 3).records() == batch.records()[1:3]
    assert len(batch.cut(3, 3)) == 0


def test_what_was_decoded_does_not_keep_its_page() -> None:
    page = entries([*encode([b"abc", NewRecord(b"d", key=b"k")], NOON)])
    received = bytearray(page.payload)
    view = Columns(page.entry_ids, page.lengths, page.digests, memoryview(received))
    batch = decode(view, segment_start=0)
    received[:] = bytes(len(received))
    assert [type(payload) for payload in batch.payloads] == [bytes, bytes]
    assert (list(batch.payloads), list(batch.keys)) == ([b"abc", b"d"], [None, b"k"])


LARGEST = NewRecord(
    b"payload",
    key=bytes(KEY_BYTES_MAX),
    headers={f"{n:0{HEADER_NAME_BYTES_MAX}}": bytes(HEADER_VALUE_BYTES_MAX) for n in range(HEADERS_MAX)},
    event_time=2**63 - 1,
)


def test_a_record_may_have_as_much_as_its_bounds_say() -> None:
    (record,) = decoded(encode([LARGEST], NOON))
    assert (record.key, record.headers, record.event_time) == (
        LARGEST.key,
        LARGEST.headers,
        LARGEST.event_time,
    )


@pytest.mark.parametrize(
    ("wrong", "error", "why"),
    [
        ({"key": bytes(KEY_BYTES_MAX + 1)}, ValueError, "the key can have at most 65535 bytes, not 65536"),
        ({"key": "text"}, TypeError, "the key must be bytes, not str"),
        ({"event_time": 2**63}, ValueError, "64 bits, not 9223372036854775808"),
        ({"event_time": 1.5}, TypeError, "an event time must be a whole number of microseconds, not float"),
        ({"headers": {f"{n}": b"" for n in range(65)}}, ValueError, "at most 64 headers, not 65"),
        ({"headers": {"n" * 256: b""}}, ValueError, "name must be 1 to 255 bytes of UTF-8"),
        ({"headers": {"": b""}}, ValueError, "name must be 1 to 255 bytes of UTF-8, not ''"),
        ({"headers": {"\udc80": b""}}, ValueError, "not '.udc80'"),
        ({"headers": {b"n": b""}}, TypeError, "name must be text, not bytes"),
        (
            {"headers": {"n": bytes(65536)}},
            ValueError,
            "the header 'n' can have at most 65535 bytes, not 65536",
        ),
        ({"headers": {"n": "text"}}, TypeError, "the header 'n' must be bytes, not str"),
        ({"payload": "text"}, TypeError, "a payload must be bytes, bytearray or memoryview, not str"),
    ],
)
def test_what_a_record_cannot_have_is_refused_before_anything_is_appended(
    wrong: Mapping[str, object], error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=why):
        NewRecord(**{"payload": b"", **wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("producer", "sequence", "error", "why"),
    [
        ("", 0, ValueError, "a producer's name must be 1 to 128 bytes of UTF-8, not ''"),
        ("é" * 65, 0, ValueError, "a producer's name must be 1 to 128 bytes"),
        (b"p", 0, TypeError, "a producer's name must be text, not bytes"),
        ("p", -1, ValueError, "a sequence must be 0 to 9223372036854775807, not -1"),
        ("p", 2**63, ValueError, "a sequence must be 0 to 9223372036854775807, not 9223372036854775808"),
        ("p", 1.0, TypeError, "a sequence must be an int, not float"),
    ],
)
def test_what_numbers_no_record_is_refused(
    producer: str, sequence: int, error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=why):
        Numbered(b"", producer=producer, sequence=sequence)


@pytest.mark.parametrize("wrong", ["text", None, 7, Record(0, b"", 0, None, {}, None)])
def test_a_batch_with_anything_but_records_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match="a payload must be bytes, bytearray or memoryview, not"):
        encode([b"good", wrong], NOON)  # type: ignore[list-item]


FULL = encode([NewRecord(b"payload", key=b"key", headers={"name": b"value"}, event_time=NOON)], NOON)[0]
FIELDS_END = len(FULL) - len(b"payload")
HEADERS_START = FIELDS_END - len(b"\1\4name\5\0value")


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (b"", "it has 0 bytes, so it is not a record of a log"),
        (bytes(9), "it has 9 bytes, so it is not a record of a log"),
        (b"\x02" + FULL[1:], "version 2 with fields 0x07: a newer program wrote it"),
        (b"\x01\x10" + FULL[2:], "version 1 with fields 0x10: a newer program wrote it"),
        (b"some text of another program", "not a record of a log"),
        (
            FULL[: HEADERS_START + 5] + b"\xff" + FULL[HEADERS_START + 6 :],
            "the name of a header is not UTF-8: it is damaged",
        ),
        (FULL[:HEADERS_START] + b"\x00" + FULL[HEADERS_START + 1 :], "0 headers: it is damaged"),
        (FULL[:HEADERS_START] + b"\x41" + FULL[HEADERS_START + 1 :], "65 headers: it is damaged"),
        (
            FULL[: HEADERS_START + 1] + b"\x00" + FULL[HEADERS_START + 2 :],
            "a header has no name: it is damaged",
        ),
        *(
            (FULL[:end], "a field extends past the end of the record: it is damaged")
            for end in range(HEAD_BYTES, FIELDS_END)
        ),
    ],
)
def test_a_damaged_or_newer_entry_is_named_by_its_position(entry: bytes, why: str) -> None:
    with pytest.raises(RecordUnreadable, match=why) as refused:
        decoded([FULL, entry, FULL], first_entry=6, segment_start=100)
    assert refused.value.position == 107


@given(
    st.lists(st.binary(max_size=30) | st.binary(max_size=30).map(lambda rest: FULL[:12] + rest), max_size=4)
)
def test_the_first_entry_that_is_refused_leaves_all_before_it_readable(found: list[bytes]) -> None:
    position_bad = None
    try:
        positions = [record.position for record in decoded(found)]
    except RecordUnreadable as refused:
        position_bad = refused.position
        positions = [record.position for record in decoded(found[:position_bad])]
    assert positions == list(range(len(found)))[:position_bad]
