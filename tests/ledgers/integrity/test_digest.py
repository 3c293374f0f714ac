"""Digests bind bytes to their ledger and entry."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie.wire import NO_ENTRIES, Columns, of_payloads
from ledgers.integrity.digest import Crc32cDigester, Digester, HmacDigester, digester
from metadata.records.ledger_record import DigestType

BOTH: list[Digester] = [Crc32cDigester(7), HmacDigester(7, b"secret")]
OTHERS: list[Digester] = [Crc32cDigester(8), HmacDigester(8, b"secret")]

both = pytest.mark.parametrize("digest", BOTH, ids=["crc32c", "hmac"])


def signed(digest: Digester, first: int, *payloads: bytes) -> Columns:
    return of_payloads(first, payloads, digest.sign(first, payloads))


@both
@given(first=st.integers(0, 2**62), payloads=st.lists(st.binary(max_size=20), max_size=8))
def test_what_was_signed_is_good(digest: Digester, first: int, payloads: list[bytes]) -> None:
    assert digest.bad_entries(signed(digest, first, *payloads)) == []


@both
@given(payloads=st.lists(st.binary(min_size=1, max_size=8), min_size=1, max_size=6), data=st.data())
def test_any_flipped_bit_of_a_payload_is_found_and_only_there(
    digest: Digester, payloads: list[bytes], data: st.DataObject
) -> None:
    columns = signed(digest, 3, *payloads)
    bit = data.draw(st.integers(0, 8 * len(columns.payload) - 1))
    damaged = bytearray(columns.payload)
    damaged[bit // 8] ^= 1 << bit % 8
    ends = [sum(map(len, payloads[: n + 1])) for n in range(len(payloads))]
    hit = next(n for n, end in enumerate(ends) if bit // 8 < end)
    assert digest.bad_entries(replace(columns, payload=bytes(damaged))) == [hit]


@both
def test_a_payload_under_another_entrys_id_is_bad(digest: Digester) -> None:
    columns = of_payloads(4, [b"one", b"one"], digest.sign(5, [b"one", b"one"]))
    assert digest.bad_entries(columns) == [0, 1]


@pytest.mark.parametrize(("digest", "other"), list(zip(BOTH, OTHERS, strict=True)), ids=["crc32c", "hmac"])
def test_a_payload_of_another_ledger_is_bad(digest: Digester, other: Digester) -> None:
    assert digest.bad_entries(signed(other, 0, b"same")) == [0]
    assert not digest.is_valid_lac(other.sign_lac(3, 12))


@both
def test_an_entry_that_is_sent_again_alone_is_the_same_bytes(digest: Digester) -> None:
    """A digest does not cover what the entry travelled with."""
    together = signed(digest, 0, b"a", b"bb", b"ccc")
    assert together.cut(1, 2) == signed(digest, 1, b"bb")


@both
def test_a_digest_is_as_wide_as_it_is_said_to_be(digest: Digester) -> None:
    for payloads in ([b""], [b"a", b"bc"]):
        assert len(digest.sign(7, payloads)) == digest.width_bytes * len(payloads)


@both
def test_nothing_is_good(digest: Digester) -> None:
    assert digest.bad_entries(NO_ENTRIES) == []


@both
def test_a_lac_statement_is_bound_to_its_entry_and_length(digest: Digester) -> None:
    statement = digest.sign_lac(9, 100)
    assert digest.is_valid_lac(statement)
    assert not digest.is_valid_lac(statement._replace(last_entry=10))
    assert not digest.is_valid_lac(statement._replace(length_bytes=101))
    assert not digest.is_valid_lac(statement._replace(digest=b""))


@both
def test_digests_of_another_width_are_bad(digest: Digester) -> None:
    """A ledger of the other digest type, or none."""
    columns = of_payloads(0, [b"a", b"b"], b"")
    assert digest.bad_entries(columns) == [0, 1]


def test_another_password_neither_passes_nor_forges() -> None:
    mine, other = HmacDigester(7, b"secret"), HmacDigester(7, b"Secret")
    assert mine.bad_entries(signed(other, 0, b"a")) == [0]
    assert not mine.is_valid_lac(other.sign_lac(0, 1))


def test_an_entry_never_passes_for_a_statement_of_the_same_bytes() -> None:
    """The kind is inside the digest."""
    for digest in BOTH:
        statement = digest.sign_lac(1, 2)
        assert digest.sign(1, [(2).to_bytes(8, "little")]) != statement.digest


def test_the_record_chooses_the_digest() -> None:
    assert isinstance(digester(DigestType.CRC32C, 1, b""), Crc32cDigester)
    assert isinstance(digester(DigestType.HMAC_SHA256, 1, b""), HmacDigester)
