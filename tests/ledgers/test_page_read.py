"""Reading a page: few bookies first, every replica before giving up, never a wrong byte."""

from __future__ import annotations

import random

import pytest

from bookie.wire import NO_ENTRIES, Columns, EntryRange, ReadReply, Status, merge, of_payloads
from ledgers.digest import Crc32cDigester
from ledgers.errors import DigestMismatch, EntryUnreadable
from ledgers.page_read import Ask, PageDone, PageEffect, PageFailed, PageRead
from ledgers.striping import Striping
from metadata.ledger_record import BookieRef, Fragment, Shape

DIGEST = Crc32cDigester(7)


def entries(*ids: int) -> Columns:
    return merge(of_payloads(i, [b"%03d" % i], DIGEST.sign(i, [b"%03d" % i])) for i in ids)


def page(*ids: int, through: int = 999, damaged: tuple[EntryRange, ...] = ()) -> ReadReply:
    return ReadReply(Status.OK, entries(*ids), through, damaged)


def forged(entry_id: int) -> ReadReply:
    return ReadReply(Status.OK, of_payloads(entry_id, [b"???"], DIGEST.sign(entry_id, [b"ok"])), 999)


def reading(
    sizes: tuple[int, int, int], first: int, last: int, avoid: tuple[int, ...] = (), rotation: int = 0
) -> PageRead:
    shape = Shape(*sizes)
    fragment = Fragment(0, tuple(BookieRef(f"b{n}", "i") for n in range(shape.ensemble_size)))
    return PageRead(7, Striping(shape), fragment, DIGEST, first, last, avoid=avoid, rotation=rotation)


def test_one_bookie_is_asked_where_each_holds_everything() -> None:
    read = reading((3, 3, 2), 5, 9)
    assert read.start() == [Ask(0, 5, 9)]
    assert read.answered(0, page(5, 6, 7, 8, 9)) == [PageDone(entries(5, 6, 7, 8, 9))]


def test_readers_of_different_pages_start_at_different_bookies() -> None:
    assert reading((3, 3, 2), 5, 9, rotation=2).start() == [Ask(2, 5, 9)]


def test_bookies_that_failed_lately_are_asked_last() -> None:
    read = reading((3, 3, 2), 5, 9, avoid=(0, 1))
    assert read.start() == [Ask(2, 5, 9)]
    assert read.failed(2, "timeout") == [Ask(0, 5, 9)]
    assert read.failed(0, "timeout") == [Ask(1, 5, 9)]


def test_a_page_may_be_shorter_than_what_was_asked_for() -> None:
    read = reading((3, 3, 2), 5, 9)
    read.start()
    assert read.answered(0, page(5, 6, through=6)) == [PageDone(entries(5, 6))]


def test_a_page_ends_before_a_gap() -> None:
    read = reading((3, 3, 2), 5, 9)
    read.start()
    assert read.answered(0, page(5, 6, 8, 9)) == [PageDone(entries(5, 6))]


def test_a_striped_range_is_read_from_bookies_that_hold_it_between_them() -> None:
    read = reading((4, 2, 2), 0, 3)
    assert read.start() == [Ask(0, 0, 3), Ask(1, 0, 3), Ask(2, 0, 3)]
    assert read.answered(2, page(1, 2)) + read.answered(0, page(0, 3)) == []
    assert read.answered(1, page(0, 1)) == [PageDone(entries(0, 1, 2, 3))]


def test_a_missing_first_entry_is_asked_of_its_other_replicas_until_one_has_it() -> None:
    read = reading((3, 3, 2), 5, 9)
    read.start()
    assert read.answered(0, page(6, 7)) == [Ask(1, 5, 9)]
    assert read.answered(1, ReadReply(Status.IO_ERROR)) == [Ask(2, 5, 9)]
    assert read.answered(2, page(5)) == [PageDone(entries(5, 6, 7))]
    assert read.failures == {"b0": "has no such entry", "b1": "i/o error"}


def test_in_a_striped_ledger_only_the_missing_entry_is_fetched_elsewhere() -> None:
    read = reading((5, 3, 2), 0, 0)
    assert read.start() == [Ask(0, 0, 0)]
    assert read.failed(0, "timeout") == [Ask(1, 0, 0)]


def test_bytes_with_a_wrong_digest_are_never_given() -> None:
    read = reading((3, 3, 2), 5, 5)
    read.start()
    assert read.answered(0, forged(5)) == [Ask(1, 5, 5)]
    assert read.answered(1, page(5)) == [PageDone(entries(5))]


def test_an_entry_without_a_good_copy_fails_with_what_each_replica_said() -> None:
    read = reading((3, 3, 2), 5, 5)
    read.start()
    read.answered(0, page(damaged=(EntryRange(4, 6),)))
    read.answered(1, page())
    (effect,) = read.failed(2, "timeout")
    assert isinstance(effect, PageFailed)
    assert type(effect.error) is EntryUnreadable
    assert effect.error.entry_id == 5
    assert effect.error.answers == {
        "b0": "its copy is damaged",
        "b1": "has no such entry",
        "b2": "timeout",
    }


def test_a_digest_that_no_replica_could_better_is_told_as_such() -> None:
    read = reading((2, 2, 1), 5, 5)
    read.start()
    read.answered(0, forged(5))
    (effect,) = read.answered(1, page())
    assert isinstance(effect, PageFailed)
    assert isinstance(effect.error, DigestMismatch)
    assert effect.error.answers["b0"] == "wrong digest on entry 5"


def test_entries_that_were_not_asked_for_are_dropped() -> None:
    read = reading((3, 3, 2), 5, 6)
    read.start()
    assert read.answered(0, page(3, 4, 5, 6, 7)) == [PageDone(entries(5, 6))]


SHAPES = [(3, 3, 2), (4, 2, 2), (5, 3, 2), (2, 2, 1), (1, 1, 1), (6, 4, 3)]


@pytest.mark.parametrize("sizes", SHAPES, ids=str)
def test_whatever_bookies_answer_a_page_is_right_or_no_replica_had_its_first_entry(
    sizes: tuple[int, int, int],
) -> None:
    """Random holdings, pages, failures and forgeries, answered in random order."""
    shape = Shape(*sizes)
    striping = Striping(shape)
    for seed in range(300):
        rng = random.Random(seed)
        first = rng.randrange(10)
        last = first + rng.randrange(8)
        held = {
            p: {i for i in range(20) if striping.holds(p, i) and rng.random() < 0.7}
            for p in range(shape.ensemble_size)
        }
        answers = {p: _answer(rng, held[p], first, last) for p in held}
        read = reading(sizes, first, last, rotation=rng.randrange(9))
        done = _finish(read, answers, rng)
        if isinstance(done, PageDone):
            ids = list(done.columns.ids)
            assert ids == list(range(first, first + len(ids))) and ids[-1] <= last
            assert done.columns == entries(*ids)
        else:
            assert isinstance(done, PageFailed)
            for position in striping.write_set(first):
                reply = answers[position]
                assert reply is None or first not in _good(reply)


def _answer(rng: random.Random, held: set[int], first: int, last: int) -> ReadReply | None:
    if rng.random() < 0.2:
        return None
    covered = rng.randint(first, last)
    ids = [i for i in sorted(held) if first <= i <= covered]
    if ids and rng.random() < 0.2:
        return forged(ids[0])
    return ReadReply(Status.OK, entries(*ids) if ids else NO_ENTRIES, covered)


def _good(reply: ReadReply) -> set[int]:
    bad = DIGEST.bad_entries(reply.columns)
    return {entry_id for n, entry_id in enumerate(reply.columns.ids) if n not in bad}


def _finish(read: PageRead, answers: dict[int, ReadReply | None], rng: random.Random) -> PageEffect:
    waiting = [effect for effect in read.start() if isinstance(effect, Ask)]
    while waiting:
        ask = waiting.pop(rng.randrange(len(waiting)))
        reply = answers[ask.position]
        for effect in (
            read.failed(ask.position, "timeout") if reply is None else read.answered(ask.position, reply)
        ):
            if not isinstance(effect, Ask):
                assert not waiting
                return effect
            waiting.append(effect)
    raise AssertionError("it asked nobody and did not end")
