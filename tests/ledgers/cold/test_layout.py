"""The format of objects: what was uploaded comes back, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie.wire import Columns
from bookie.wire.columnar_entries import of_payloads
from ledgers.cold.errors import BadObject
from ledgers.cold.layout import (
    FOOTER_BYTES,
    MAGIC,
    add_block,
    decode_block,
    encode_block,
    end_of,
    index_bounds,
    read_index,
)
from ledgers.integrity.digest import Crc32cDigester
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord, Shape
from metadata.records.notes.cold_index import ColdIndex

IDENTITY = b"i" * 16
CLOSED = LedgerRecord(7, Shape(1, 1, 1), (Fragment(0, (BookieRef("b1", "i1"),)),), identity=IDENTITY).closed(
    5, 100
)
DIGESTER = Crc32cDigester(7)


def entries(first: int, payloads: list[bytes]) -> Columns:
    return of_payloads(first, payloads, DIGESTER.sign(first, payloads))


def an_object(*blocks: Columns) -> bytes:
    index, data = ColdIndex(CLOSED, 0, 4), MAGIC
    for columns in blocks:
        block, is_compressed = encode_block([columns])
        add_block(index, [columns], block, is_compressed=is_compressed)
        data += b"".join(block)
    return data + end_of(index)


def index_in(data: bytes) -> ColdIndex:
    start, stop, crc = index_bounds(data[-FOOTER_BYTES:], len(data))
    return read_index(data[start:stop], crc)


@given(st.lists(st.lists(st.binary(max_size=300), min_size=1, max_size=20), min_size=1, max_size=4))
def test_every_entry_comes_back_with_its_digest(blocks: list[list[bytes]]) -> None:
    columns, first = [], 0
    for payloads in blocks:
        columns.append(entries(first, payloads))
        first += len(payloads)
    data = an_object(*columns)
    index = index_in(data)
    assert index.ledger == CLOSED and index.first_entries[-1] == first
    for number, expected in enumerate(columns):
        start, stop = index.offsets[number : number + 2]
        found = decode_block(index, number, data[start:stop])
        assert (found.entry_ids, found.lengths, found.digests) == (
            expected.entry_ids,
            expected.lengths,
            expected.digests,
        )
        assert bytes(found.payload) == bytes(expected.payload) and not DIGESTER.bad_entries(found)
        assert all(index.block_of(entry) == number for entry in expected.ids)


def test_a_block_has_the_entries_of_all_its_pages() -> None:
    pages = [entries(0, [b"one", b"two"]), entries(2, [b"three"])]
    index = ColdIndex(CLOSED, 0, 4)
    block, is_compressed = encode_block(pages)
    add_block(index, pages, block, is_compressed=is_compressed)
    assert decode_block(index, 0, b"".join(block)) == entries(0, [b"one", b"two", b"three"])


def test_what_does_not_compress_is_stored_as_it_is() -> None:
    import random

    assert encode_block([entries(0, [random.Random(1).randbytes(10_000)])])[1] is False
    assert encode_block([entries(0, [b"a" * 10_000])])[1] is True


@pytest.mark.parametrize("place", range(0, 400, 7))
def test_no_flipped_bit_passes(place: int) -> None:
    data = bytearray(an_object(entries(0, [b"a" * 50, b"b" * 50]), entries(2, [b"c" * 20])))
    data[len(MAGIC) + place % (len(data) - len(MAGIC))] ^= 4
    with pytest.raises(BadObject):
        index = index_in(bytes(data))
        for number in range(len(index)):
            start, stop = index.offsets[number : number + 2]
            decode_block(index, number, bytes(data[start:stop]))


@pytest.mark.parametrize("size", [0, 5, FOOTER_BYTES, 100])
def test_a_torn_object_is_refused(size: int) -> None:
    data = an_object(entries(0, [b"a" * 100]))[:size]
    with pytest.raises(BadObject):
        index_bounds(data[-FOOTER_BYTES:], len(data))


def test_a_newer_format_is_refused_in_words() -> None:
    data = bytearray(an_object(entries(0, [b"a"])))
    data[-12] = 2
    with pytest.raises(BadObject, match="format version 2; this program supports 1"):
        index_bounds(bytes(data[-FOOTER_BYTES:]), len(data))
