"""Segments of a real NameNode read as Hadoop's own tool reads them, field by field, and come out byte for byte."""

from __future__ import annotations

from collections import Counter

import pytest

from qjm_compat.edits import (
    HEADER_BYTES,
    PREALLOCATION_BYTES,
    check_batch,
    decode_header,
    decode_op,
    encode_op,
    frame_offsets,
    iter_ops,
    iter_segment,
    op_to_json,
    op_to_xml,
    scan_segment,
    segment_bytes,
)
from tests.qjm_compat.edits.real_segments import (
    NAMES,
    content_of,
    counts_of,
    needs_segments,
    records_of,
    segment,
)

pytestmark = needs_segments
IN_PROGRESS = NAMES[-1]


@pytest.mark.parametrize("name", NAMES)
def test_there_are_as_many_ops_of_each_kind_as_oev_counts(name: str) -> None:
    assert Counter(op.name for op in iter_segment(segment(name))) == counts_of(name)


@pytest.mark.parametrize("name", NAMES)
def test_every_field_is_what_oev_prints(name: str) -> None:
    data, records = segment(name), records_of(name)
    # all-ops.xml was printed from layout -57, which could not say whether a file may be overwritten.
    unsaid = {"OVERWRITE"} if name == "all-ops" else set()
    ops = list(iter_segment(data))
    assert len(ops) == len(records)
    for op, record in zip(ops, records, strict=True):
        shown = [content_of(one) for one in op_to_xml(op, decode_header(data))[1] if one.tag not in unsaid]
        assert shown == [content_of(one) for one in record[1]]
        assert op.name == record[0].text


@pytest.mark.parametrize("name", NAMES)
def test_what_is_read_and_written_again_is_the_same_bytes(name: str) -> None:
    data = segment(name)
    layout_version = decode_header(data)
    frames = [encode_op(op, layout_version) for op in iter_segment(data)]
    assert segment_bytes(layout_version, frames, padding=name == IN_PROGRESS) == data


@pytest.mark.parametrize("name", NAMES)
def test_a_scan_finds_all_ops_and_no_damage(name: str) -> None:
    scan = scan_segment(segment(name))
    ops = list(iter_segment(segment(name)))
    assert (scan.first_txid, scan.last_txid, scan.ops) == (ops[0].txid, ops[-1].txid, len(ops))
    assert scan.is_contiguous and scan.damage == ()
    body = segment(name)[HEADER_BYTES : scan.valid_bytes]
    check_batch(body, scan.first_txid, scan.ops)
    assert len(frame_offsets(body)) == scan.ops


def test_the_padding_of_a_segment_that_is_being_written_is_not_taken_for_ops() -> None:
    data = segment(IN_PROGRESS)
    assert len(data) == PREALLOCATION_BYTES
    scan = scan_segment(data)
    assert scan.valid_bytes < len(data)
    assert set(data[scan.valid_bytes :]) == {0xFF}


def test_an_op_alone_is_what_it_is_in_its_segment() -> None:
    data = segment("all-ops")
    body, ops = data[HEADER_BYTES:], list(iter_segment(data))
    begins = frame_offsets(body)
    frames = [body[begin:end] for begin, end in zip(begins, [*begins[1:], len(body)], strict=True)]
    assert [decode_op(frame, decode_header(data)) for frame in frames] == ops
    assert list(iter_ops(memoryview(body), decode_header(data))) == ops
    assert [op_to_json(op)["op"] for op in ops] == [op.name for op in ops]
