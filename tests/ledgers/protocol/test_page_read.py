"""Reading a page: few bookies first, every replica before giving up, no wrong byte, no wait for the slow."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from bookie.wire import NO_ENTRIES, Columns, EntryRange, ReadReply, Status, merge, of_payloads
from ledgers.errors import DigestMismatch, EntryUnreadable
from ledgers.integrity.digest import Crc32cDigester
from ledgers.protocol.page_read import PageDone, PageEffect, PageFailed, PageRead, ReadReplica
from ledgers.protocol.striping import Striping
from metadata.records.ledger_record import BookieRef, Fragment, Shape

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
    assert read.start() == [ReadReplica(0, 5, 9)]
    assert read.answered(0, page(5, 6, 7, 8, 9)) == [PageDone(entries(5, 6, 7, 8, 9))]


def test_readers_of_different_pages_start_at_different_bookies() -> None:
    assert reading((3, 3, 2), 5, 9, rotation=2).start() == [ReadReplica(2, 5, 9)]


def test_bookies_that_failed_lately_are_asked_last() -> None:
    read = reading((3, 3, 2), 5, 9, avoid=(0, 1))
    assert read.start() == [ReadReplica(2, 5, 9)]
    assert read.failed(2, "timeout") == [ReadReplica(0, 5, 9)]
    assert read.failed(0, "timeout") == [ReadReplica(1, 5, 9)]


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
    assert read.start() == [ReadReplica(0, 0, 3), ReadReplica(2, 0, 3)]
    assert read.answered(2, page(1, 2)) == []
    assert read.answered(0, page(0, 3)) == [PageDone(entries(0, 1, 2, 3))]


def test_a_bookie_that_failed_lately_covers_only_what_no_other_holds() -> None:
    assert reading((4, 2, 2), 0, 3, avoid=(0,)).start() == [ReadReplica(1, 0, 3), ReadReplica(3, 0, 3)]
    assert reading((4, 2, 2), 0, 3, avoid=(0, 1)).start() == [
        ReadReplica(2, 0, 3),
        ReadReplica(3, 0, 3),
        ReadReplica(0, 0, 3),
    ]


def test_a_missing_first_entry_is_asked_of_its_other_replicas_until_one_has_it() -> None:
    read = reading((3, 3, 2), 5, 9)
    read.start()
    assert read.answered(0, page(6, 7)) == [ReadReplica(1, 5, 9)]
    assert read.answered(1, ReadReply(Status.IO_ERROR)) == [ReadReplica(2, 5, 9)]
    assert read.answered(2, page(5)) == [PageDone(entries(5, 6, 7))]
    assert read.failures == {"b0": "has no such entry", "b1": "i/o error"}


def test_bytes_with_a_wrong_digest_are_never_given() -> None:
    read = reading((3, 3, 2), 5, 5)
    read.start()
    assert read.answered(0, forged(5)) == [ReadReplica(1, 5, 5)]
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


# --- speculative reads -----------------------------------------------------------------------------


def test_an_overdue_page_is_asked_of_the_next_replica_too_and_the_first_answer_wins() -> None:
    read = reading((3, 3, 2), 5, 9)
    read.start()
    assert read.overdue() == [ReadReplica(1, 5, 9)]
    assert read.answered(1, page(5, 6)) == [PageDone(entries(5, 6))]
    assert read.answered(0, page(5, 6, 7)) == [], "it came too late"


def test_an_entry_missing_at_the_late_bookie_is_waited_for_at_the_one_asked_in_its_place() -> None:
    read = reading((3, 3, 2), 5, 9)
    read.start()
    read.overdue()
    assert read.answered(0, page()) == []
    assert read.answered(1, page(5)) == [PageDone(entries(5))]


def test_each_time_a_page_is_overdue_one_more_replica_is_asked_until_all_are() -> None:
    read = reading((3, 3, 2), 5, 9)
    read.start()
    assert read.overdue() + read.overdue() == [ReadReplica(1, 5, 9), ReadReplica(2, 5, 9)]
    assert read.overdue() == []
    assert read.failed(2, "timeout") + read.answered(0, page()) == []
    assert read.answered(1, page(5)) == [PageDone(entries(5))]


def test_a_page_whose_replicas_are_all_overdue_fails_only_when_the_last_has_answered() -> None:
    read = reading((2, 2, 2), 5, 5)
    read.start()
    read.overdue()
    assert read.overdue() + read.failed(0, "timeout") == []
    (effect,) = read.failed(1, "timeout")
    assert isinstance(effect, PageFailed)
    assert effect.error.answers == {"b0": "timeout", "b1": "timeout"}


def test_a_replica_that_is_asked_for_a_missing_entry_may_be_overdue_as_well() -> None:
    read = reading((3, 3, 2), 5, 9)
    read.start()
    assert read.answered(0, page()) == [ReadReplica(1, 5, 9)]
    assert read.overdue() == [ReadReplica(2, 5, 9)]


def test_a_wrong_digest_does_not_win_against_a_good_copy_that_is_late() -> None:
    read = reading((2, 2, 1), 5, 5)
    read.start()
    assert read.overdue() == [ReadReplica(1, 5, 5)]
    assert read.answered(1, forged(5)) == []
    assert read.answered(0, page(5)) == [PageDone(entries(5))]


def test_in_a_striped_ledger_only_what_the_slow_bookie_was_to_give_is_asked_elsewhere() -> None:
    read = reading((6, 2, 2), 0, 5)
    assert read.start() == [ReadReplica(0, 0, 5), ReadReplica(2, 0, 5), ReadReplica(4, 0, 5)]
    assert read.answered(0, page(0, 5)) + read.answered(4, page(3, 4)) == []
    assert read.overdue() == [ReadReplica(1, 0, 5), ReadReplica(3, 0, 5)]
    assert read.answered(1, page(0, 1)) == []
    assert read.answered(3, page(2, 3)) == [PageDone(entries(0, 1, 2, 3, 4, 5))]


def test_a_slow_bookie_that_comes_back_ends_the_wait_for_those_asked_in_its_place() -> None:
    read = reading((4, 2, 2), 0, 3)
    read.start()
    read.answered(0, page(0, 3))
    read.overdue()
    assert read.answered(2, page(1, 2)) == [PageDone(entries(0, 1, 2, 3))]


def test_what_is_there_is_given_when_only_slow_bookies_have_the_rest() -> None:
    read = reading((3, 1, 1), 0, 2)
    read.start()
    assert read.answered(0, page(0)) + read.answered(1, page(1)) == []
    assert read.overdue() == [PageDone(entries(0, 1))]


def test_a_page_that_is_done_asks_nobody_any_more() -> None:
    read = reading((3, 3, 2), 5, 9)
    read.start()
    read.answered(0, page(5))
    assert read.overdue() == []


# --- bad copies ------------------------------------------------------------------------------------


def wide(columns: Columns) -> ReadReply:
    """Digests of another width, which begin with the right bytes."""
    return ReadReply(Status.OK, replace(columns, digests=columns.digests * 2), 999)


@pytest.mark.parametrize("count", [1, 2])
def test_digests_of_another_width_are_a_bad_copy_of_that_bookie_only(count: int) -> None:
    read = reading((4, 2, 2), 0, 3)
    read.start()
    assert read.answered(0, wide(entries(0, 3) if count == 2 else entries(0))) == []
    assert read.answered(2, page(1, 2)) == [ReadReplica(1, 0, 0)]
    assert read.failures == {"b0": "wrong digest on entry 0"}
    assert read.answered(1, page(0)) == [PageDone(entries(0, 1, 2))]


# --- absence -----------------------------------------------------------------------------------------


def absence(read: PageRead, *replies: ReadReply | None) -> bool:
    read.start()
    effects: list[PageEffect] = []
    for position, reply in enumerate(replies):
        effects = read.failed(position, "timeout") if reply is None else read.answered(position, reply)
    (effect,) = effects
    assert isinstance(effect, PageFailed)
    return effect.is_absent


NO_LEDGER = ReadReply(Status.NO_SUCH_LEDGER)


def test_an_entry_is_absent_when_every_replica_says_so() -> None:
    assert absence(reading((3, 3, 2), 5, 5), page(), NO_LEDGER, page(6))


@pytest.mark.parametrize(
    "doubt",
    [None, ReadReply(Status.IO_ERROR), page(damaged=(EntryRange(5, 5),)), forged(5), page(through=4)],
    ids=["silence", "i/o error", "damage", "wrong digest", "nothing said of it"],
)
def test_what_is_no_word_of_absence_is_not_taken_for_one(doubt: ReadReply | None) -> None:
    assert not absence(reading((3, 3, 2), 5, 5), page(), doubt, page())


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
            replies = [answers[position] for position in striping.write_set(first)]
            assert all(reply is None or first not in _good(reply) for reply in replies)
            if done.is_absent:
                assert all(reply is not None and first not in reply.columns.ids for reply in replies)


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
    waiting = [effect for effect in read.start() if isinstance(effect, ReadReplica)]
    while waiting:
        if rng.random() < 0.3:
            effects = read.overdue()
        else:
            position = waiting.pop(rng.randrange(len(waiting))).position
            reply = answers[position]
            effects = read.answered(position, reply) if reply else read.failed(position, "timeout")
        for effect in effects:
            if not isinstance(effect, ReadReplica):
                return effect
            waiting.append(effect)
    raise AssertionError("it asked nobody and did not end")
