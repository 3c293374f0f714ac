"""The digests of a whole page are checked together, and say what checking them one by one says."""

from __future__ import annotations

import random
import struct
from dataclasses import replace

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from bookie.wire import Columns, of_payloads
from ledgers.integrity import crc_page
from ledgers.integrity.crc_page import all_good
from ledgers.integrity.digest import PAGE_ENTRIES_MIN, Crc32cDigester

SEED = 0x12345678
DIGEST = Crc32cDigester(7)


def page(first_entry: int, payloads: list[bytes], seed: int = SEED) -> Columns:
    """As a digester signs it, entry by entry."""
    digests = [crc32c(p, crc32c(struct.pack("<q", i), seed)) for i, p in enumerate(payloads, first_entry)]
    return of_payloads(first_entry, payloads, struct.pack(f"<{len(digests)}I", *digests))


def some_payloads(count: int, sizes: tuple[int, int], chance: random.Random) -> list[bytes]:
    return [chance.randbytes(chance.randint(*sizes)) for _ in range(count)]


pages = st.builds(
    lambda first, count, sizes, chance: page(first, some_payloads(count, sizes, chance)),
    st.sampled_from([0, 250, 65_530, 2**31 - 5, 2**62]) | st.integers(0, 2**62),
    st.integers(1, 80),
    st.sampled_from([(1, 1), (1, 3), (1, 40), (255, 257), (1000, 1000), (1, 4096)]),
    st.randoms(use_true_random=False),
)


@settings(max_examples=100)
@given(columns=pages)
def test_a_page_whose_digests_are_all_right_is_good(columns: Columns) -> None:
    assert all_good(columns, SEED)


@settings(max_examples=200)
@given(columns=pages, data=st.data())
def test_one_flipped_bit_of_an_id_a_digest_or_a_payload_is_always_found(
    columns: Columns, data: st.DataObject
) -> None:
    field = data.draw(st.sampled_from(["entry_ids", "digests", "payload"]))
    damaged = bytearray(getattr(columns, field) or b"\0")
    bit = data.draw(st.integers(0, 8 * len(damaged) - 1))
    damaged[bit // 8] ^= 1 << bit % 8
    broken = replace(columns, **{field: bytes(damaged)})
    assert (not all_good(broken, SEED)) == (len(getattr(columns, field)) > 0)


@settings(max_examples=50)
@given(chance=st.randoms(use_true_random=False))
def test_an_entry_in_the_place_of_another_is_found(chance: random.Random) -> None:
    """With its own digest: only its id is wrong."""
    payloads = some_payloads(40, (1, 30), chance)
    columns = page(100, payloads)
    one, other = chance.sample(range(40), 2)
    if payloads[one] == payloads[other]:
        return
    order = list(range(40))
    order[one], order[other] = other, one
    assert not all_good(replace(columns.pick(order), entry_ids=columns.entry_ids), SEED)


def test_a_page_of_another_ledger_is_found() -> None:
    for count in (1, 16, 64):
        columns = page(0, [b"same"] * count, seed=SEED + 1)
        assert not all_good(columns, SEED)


def test_a_byte_that_moved_from_one_entry_to_the_next_is_found() -> None:
    columns = page(0, [b"abc"] * 64)
    lengths = struct.pack("<64I", 2, 4, *[3] * 62)
    assert not all_good(replace(columns, lengths=lengths), SEED)


@settings(max_examples=200)
@given(columns=pages, data=st.data())
def test_many_wrong_digests_at_once_are_found(columns: Columns, data: st.DataObject) -> None:
    digests = memoryview(columns.digests).cast("I").tolist()
    wrong = data.draw(st.sets(st.integers(0, len(digests) - 1), min_size=1))
    how = data.draw(st.sampled_from(["zero", "ones", "flipped", "random"]))
    chance = data.draw(st.randoms(use_true_random=False))
    for n in wrong:
        digests[n] = {"zero": 0, "ones": 2**32 - 1, "flipped": digests[n] ^ 1}.get(
            how, chance.getrandbits(32)
        )
    broken = replace(columns, digests=struct.pack(f"<{len(digests)}I", *digests))
    assert all_good(broken, SEED) == (broken == columns)


@pytest.mark.parametrize("empty", [1, 16, 64])
@pytest.mark.parametrize("digest", [0, 2**32 - 1])
def test_blanks_in_place_of_entries_are_found_however_many(empty: int, digest: int) -> None:
    """Between entries of no bytes nothing is moved on: together, their wrong digests would cancel out."""
    payloads = [b"payload %d" % n for n in range(80)]
    columns = of_payloads(0, payloads, DIGEST.sign(0, payloads))
    sizes, digests = list(columns.sizes), memoryview(columns.digests).cast("I").tolist()
    sizes[:empty], digests[:empty] = [0] * empty, [digest] * empty
    blank = Columns(
        columns.entry_ids,
        struct.pack("<80I", *sizes),
        struct.pack("<80I", *digests),
        columns.payload[sum(map(len, payloads[:empty])) :],
    )
    assert DIGEST.bad_entries(blank) == list(range(empty))


def test_empty_entries_of_another_ledger_are_found() -> None:
    other = of_payloads(0, [b""] * 128, Crc32cDigester(8).sign(0, [b""] * 128))
    assert DIGEST.bad_entries(other) == list(range(128))


@pytest.mark.parametrize("bytes_each", [0, 3, 100, 5000])
def test_a_digester_names_the_one_bad_entry_of_a_large_page(bytes_each: int) -> None:
    payloads = [bytes([n % 256]) * bytes_each for n in range(PAGE_ENTRIES_MIN)]
    columns = of_payloads(5, payloads, DIGEST.sign(5, payloads))
    assert DIGEST.bad_entries(columns) == []
    digests = bytearray(columns.digests)
    digests[4 * 17] ^= 1
    assert DIGEST.bad_entries(replace(columns, digests=bytes(digests))) == [17]


def test_pages_of_small_entries_are_not_checked_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Columns) -> None:
        raise AssertionError("work per entry")

    payloads = [b"payload"] * PAGE_ENTRIES_MIN
    columns = of_payloads(5, payloads, DIGEST.sign(5, payloads))
    monkeypatch.setattr(Columns, "rows", fail)
    assert crc_page.can_check(columns)
    assert DIGEST.bad_entries(columns) == []
