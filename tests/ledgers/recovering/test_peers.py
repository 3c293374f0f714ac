"""What a bookie that mends itself gets from the others: whom it asks, what it is given, what it is told."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from bookie.upkeep.repair_client import PeersFailed
from bookie.wire import ReadReply, ReadRequest
from ledgers.config import MIB
from metadata.errors import StoreUnavailable
from metadata.memory_store import MemoryStore
from metadata.records.ledger_record import BookieRef, DigestType, Fragment, Shape
from metadata.records.ledger_store import LedgerStore
from tests.ledgers.reading.reading import (
    BK0,
    BK1,
    BK2,
    BK3,
    LEDGER_ID,
    DictionaryBookies,
    columns_of,
    record_of,
    with_fragments,
)
from tests.ledgers.recovering.peers import asked, failing, given, peers_knowing, peers_on
from tests.support.faulty_store import FaultyStore

BK0_FORMATTED_ANEW = BookieRef("b0", "another")


# --- whom it asks ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(3, 3, 2), (4, 3, 2), (3, 2, 2), (4, 2, 2), (4, 4, 1), (2, 2, 1)])
@pytest.mark.parametrize("mended", range(4))
async def test_every_entry_comes_in_order_and_none_from_the_bookie_to_be_mended(
    shape: tuple[int, int, int], mended: int
) -> None:
    ensemble = (BK0, BK1, BK2, BK3)[: shape[0]]
    bookies = DictionaryBookies([100] * 3000)
    record = record_of(bookies, Fragment(0, ensemble), shape=Shape(*shape))
    without = ensemble[mended % len(ensemble)]
    assert await given(peers_on(bookies), record, without) == list(range(3000))
    assert without not in asked(bookies)


async def test_a_striped_ledger_costs_no_more_questions_than_it_has_pages_and_bookies_to_cover_them() -> None:
    bookies = DictionaryBookies([1000] * 6000)
    record = record_of(bookies, Fragment(0, (BK0, BK1, BK2)), shape=Shape(3, 2, 2))
    assert len(await given(peers_on(bookies), record)) == 6000
    assert len(bookies.asked) < 2 * (2 + 6000 * 1016 // MIB)


async def test_another_incarnation_of_the_bookie_to_be_mended_is_asked_like_any_other() -> None:
    bookies = DictionaryBookies([10] * 20, lacking={b: set(range(20)) for b in (BK1, BK2)})
    record = record_of(bookies, Fragment(0, (BK0_FORMATTED_ANEW, BK1, BK2)))
    peers = await peers_knowing(record, bookies)
    assert await given(peers, record, without=BK0) == list(range(20))
    assert BK0_FORMATTED_ANEW in asked(bookies)
    with pytest.raises(PeersFailed, match="no other replica gave entry 0"):
        await given(peers, record, without=BK0_FORMATTED_ANEW)


async def test_each_fragment_is_read_from_its_own_ensemble_without_the_bookie_to_be_mended() -> None:
    bookies = DictionaryBookies([10] * 90)
    fragments = (Fragment(0, (BK0, BK1, BK2)), Fragment(30, (BK3, BK0, BK2)), Fragment(60, (BK1, BK2, BK3)))
    record = record_of(bookies, *fragments, shape=Shape(3, 2, 2))
    for without in (BK0, BK1, BK2, BK3):
        bookies.asked.clear()
        assert await given(peers_on(bookies), record, without) == list(range(90))
        assert without not in asked(bookies)
        for bookie, request in bookies.asked:
            assert bookie in record.fragment_of(request.first_entry).ensemble
            assert record.fragment_of(request.first_entry) == record.fragment_of(request.last_entry)


async def test_only_what_was_asked_for_is_given() -> None:
    bookies = DictionaryBookies([10] * 50)
    record = record_of(bookies)
    for first, last in ((0, 0), (7, 31), (49, 49), (20, 19), (50, 49)):
        assert await given(peers_on(bookies), record, first=first, last=last) == list(range(first, last + 1))


async def test_an_empty_ledger_has_nothing_to_give_and_nobody_is_asked() -> None:
    bookies = DictionaryBookies([])
    assert await given(peers_on(bookies), record_of(bookies)) == []
    assert not bookies.asked


@pytest.mark.parametrize(("first", "last"), [(-1, 3), (0, 20), (21, 20), (5, 3)])
async def test_a_range_outside_the_ledger_is_refused(first: int, last: int) -> None:
    bookies = DictionaryBookies([10] * 20)
    with pytest.raises(ValueError, match=f"entries {first} to {last} are not all in ledger 7"):
        await given(peers_on(bookies), record_of(bookies), first=first, last=last)


async def test_a_ledger_that_is_not_closed_is_refused() -> None:
    bookies = DictionaryBookies([10] * 20)
    with pytest.raises(ValueError, match="ledger 7 is not closed: recover it first"):
        await given(peers_on(bookies), record_of(bookies, closed=False), last=3)


# --- what the others lack, and how it is said ---------------------------------------------------------


@dataclass
class DamagingBookies(DictionaryBookies):
    """Like their base, but these copies have a wrong last byte, and all digests are padded to a width."""

    damaged: dict[BookieRef, set[int]] = field(default_factory=dict)
    digest_bytes: int = 4

    async def read(self, bookie: BookieRef, request: ReadRequest) -> ReadReply:
        reply = await super().read(bookie, request)
        wrong = self.damaged.get(bookie, set())
        payloads, digests = [], []
        for entry_id, payload, digest in reply.columns.rows():
            payloads.append(bytes(payload[:-1]) + bytes([payload[-1] ^ (entry_id in wrong)]))
            digests.append(bytes(digest).ljust(self.digest_bytes, b"\0"))
        columns = replace(reply.columns, payload=b"".join(payloads), digests=b"".join(digests))
        return replace(reply, columns=columns)


@pytest.mark.parametrize(
    ("shape", "damaged"),
    [
        ((3, 3, 2), {BK1: set(range(0, 60, 2)), BK2: set(range(1, 60, 2))}),
        ((3, 2, 2), {BK1: set(range(1, 60, 3))}),
        ((4, 3, 2), {BK1: set(range(0, 60, 4)), BK2: set(range(1, 60, 4)), BK3: set(range(2, 60, 4))}),
    ],
)
async def test_a_damaged_copy_is_passed_over_for_another_one(
    shape: tuple[int, int, int], damaged: dict[BookieRef, set[int]]
) -> None:
    bookies = DamagingBookies([10] * 60, damaged=damaged)
    record = record_of(bookies, Fragment(0, (BK0, BK1, BK2, BK3)[: shape[0]]), shape=Shape(*shape))
    pages = peers_on(bookies).entries(record, 0, 59, without=BK0)
    found = [bytes(payload) async for page in pages for _, payload, _ in page.rows()]
    assert found == [columns_of(n, 10).payload for n in range(60)]


async def test_an_entry_that_nobody_else_has_is_named_with_what_each_of_the_others_said() -> None:
    bookies = DamagingBookies([10] * 60, lacking={BK1: {41}}, damaged={BK2: {41}})
    bookies.before_answer = failing("timeout", BK3)
    record = record_of(bookies, Fragment(0, (BK0, BK1, BK2, BK3)))
    peers = await peers_knowing(record, bookies)
    ids: list[int] = []
    with pytest.raises(PeersFailed) as failed:
        async for page in peers.entries(record, 0, 59, without=BK0):
            ids += page.ids
    assert ids == list(range(41)), "all before it were given"
    assert (failed.value.ledger_id, failed.value.entry_id) == (7, 41)
    assert str(failed.value) == (
        "no other replica gave entry 41 of ledger 7 "
        "(b1: has no such entry; b2: wrong digest on entry 41; b3: timeout); "
        "bring back any of them that are only away, and try again; "
        "an entry missing or damaged on every replica is lost, and "
        "`bookledger ledger salvage 7 --output FILE` saves the others"
    )


async def test_an_entry_that_only_the_bookie_to_be_mended_was_to_keep_is_named_and_nobody_asked_for_it() -> (
    None
):
    bookies = DictionaryBookies([10] * 60)
    record = record_of(bookies, Fragment(0, (BK0, BK1, BK2)), shape=Shape(3, 1, 1))
    peers = await peers_knowing(record, bookies)
    with pytest.raises(PeersFailed, match="no other bookie should hold entry 3 of ledger 7; bring"):
        await given(peers, record, first=3, last=3)
    assert not bookies.asked
    assert await given(peers, record, first=4, last=5) == [4, 5]


async def test_entries_moved_to_other_bookies_meanwhile_are_looked_for_there() -> None:
    store, bookies = MemoryStore(), DictionaryBookies([10] * 20)
    bookies.before_answer = failing("gone", BK1, BK2)
    record = record_of(bookies)
    await LedgerStore(store).create(record)
    await with_fragments(LedgerStore(store), Fragment(0, (BK0, BK1, BK3)))
    assert await given(peers_on(bookies, store), record) == list(range(20))


async def test_a_ledger_deleted_meanwhile_is_said_to_be_once_nobody_has_it_any_more() -> None:
    bookies = DictionaryBookies([10] * 20, lacking={b: set(range(20)) for b in (BK1, BK2)})
    ledgers = LedgerStore(store := MemoryStore())
    await ledgers.delete(await ledgers.create(record_of(bookies)))
    with pytest.raises(PeersFailed, match="ledger 7 was deleted in the meantime; it needs no repair"):
        await given(peers_on(bookies, store), record_of(bookies))


async def test_metadata_that_does_not_answer_is_said_so() -> None:
    bookies = DictionaryBookies([10] * 20, lacking={b: {3} for b in (BK1, BK2)})
    store = FaultyStore()
    store.fail(StoreUnavailable("no answer"), calls={"get"})
    peers = peers_on(bookies, store)
    for call in (given(peers, record_of(bookies)), peers.recover(LEDGER_ID)):
        with pytest.raises(PeersFailed, match=r"cannot look up ledger 7: .*no answer; try again when"):
            await call


@pytest.mark.parametrize("digest_bytes", [4, 32])
async def test_the_entries_of_an_hmac_ledger_come_unverified_but_for_their_width(digest_bytes: int) -> None:
    bookies = DamagingBookies([10] * 20, digest_bytes=digest_bytes)
    record = replace(record_of(bookies), digest_type=DigestType.HMAC_SHA256, verifier=bytes(32))
    peers = await peers_knowing(record, bookies)
    if digest_bytes == 32:
        assert await given(peers, record) == list(range(20))
    else:
        with pytest.raises(PeersFailed, match="b1: wrong digest on entry 0; b2: wrong digest on entry 0"):
            await given(peers, record)
