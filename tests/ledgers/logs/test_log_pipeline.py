"""The pipeline of a log's writer: what is confirmed when, in the order of segments, whatever fails.

L2: nothing of a segment is confirmed before the one before it is closed, and both are in the record.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from ledgers import LedgerError
from ledgers.logs.writing.log_pipeline import (
    FAILURES_MAX,
    CloseSegment,
    ConfirmRecords,
    Discard,
    FinishWriter,
    Join,
    LogEffect,
    LogPipeline,
    MakeSegment,
    RecoverSegment,
    Submit,
)

FAILED = LedgerError("it failed")


def rolling() -> LogPipeline:
    """Ten records are appended and four confirmed; the next segment, number 1, begins behind them."""
    machine = LogPipeline(0)
    assert machine.appended(10) == 0
    assert machine.progressed(0, 3) == [ConfirmRecords(4)]
    assert machine.roll() == [MakeSegment(1, 10)]
    return machine


def test_L2_nothing_of_a_segment_is_confirmed_before_the_one_before_it_is_closed_and_both_are_in_the_record() -> (
    None
):
    machine = rolling()
    assert machine.appended(5) is None, "it waits for the next segment"
    assert machine.made(1) == [Submit(1, 10, 15), CloseSegment(0)]
    assert machine.appended(2) == 1
    assert machine.progressed(1, 6) == [], "all of the next segment is on disk"
    assert machine.progressed(0, 9) == [ConfirmRecords(10)]
    assert machine.closed(0) == [Join(0, 10, 1)]
    assert machine.progressed(1, 6) == []
    assert machine.joined() == [ConfirmRecords(17)]


def test_appends_go_on_in_the_last_segment_where_no_next_one_could_be_made() -> None:
    machine = rolling()
    assert machine.appended(5) is None
    assert machine.may_go_on_without(1)
    assert machine.not_made(1, FAILED) == [Submit(0, 10, 15)]
    assert machine.appended(1) == 0
    assert machine.made(1) == [Discard(1)], "it came too late"
    assert machine.roll() == [MakeSegment(2, 16)]


def test_the_next_segment_is_made_ahead_and_the_last_one_takes_what_comes_before_the_cut() -> None:
    machine = LogPipeline(0)
    assert machine.appended(10) == 0
    assert machine.roll(ahead=5) == [MakeSegment(1, 15)]
    assert machine.room == 5
    assert machine.appended(3) == 0
    assert machine.made(1) == [], "the last segment is not full yet"
    assert machine.appended(2) == 0
    assert machine.cut_reached() == [CloseSegment(0)]
    assert machine.appended(4) == 1
    assert machine.progressed(1, 3) == []
    assert machine.progressed(0, 14) == [ConfirmRecords(15)]
    assert machine.closed(0) == [Join(0, 15, 1)]
    assert machine.joined() == [ConfirmRecords(19)]


def test_a_next_segment_that_fails_before_the_cut_is_made_anew_there() -> None:
    machine = LogPipeline(0)
    machine.appended(10)
    machine.roll(ahead=5)
    machine.made(1)
    assert machine.failed(1, FAILED, is_final=False) == [Discard(1), MakeSegment(2, 15)]
    assert machine.appended(5) == 0


def test_a_next_segment_that_was_not_made_before_the_cut_is_given_up_and_nothing_is_moved() -> None:
    machine = LogPipeline(0)
    machine.appended(10)
    machine.roll(ahead=5)
    assert machine.is_making(1)
    assert not machine.may_go_on_without(1), "nothing waits for it yet"
    assert machine.not_made(1, FAILED) == []
    assert machine.appended(20) == 0


def test_a_last_segment_that_fails_before_the_cut_ends_where_its_recovery_says() -> None:
    machine = LogPipeline(0)
    machine.appended(10)
    machine.roll(ahead=5)
    machine.made(1)
    assert machine.failed(0, FAILED, is_final=False) == [RecoverSegment(0)]
    assert machine.appended(5) is None
    assert machine.cut_reached() == []
    assert machine.appended(1) == 1
    assert machine.recovered(0, 8) == [ConfirmRecords(8), Discard(1), MakeSegment(2, 8)]
    assert machine.made(2) == [Submit(2, 8, 16), Join(0, 8, 2)]


def test_a_segment_that_is_to_be_ended_now_does_not_wait_for_a_cut_that_may_never_be_reached() -> None:
    machine = LogPipeline(0)
    machine.appended(10)
    machine.roll(ahead=5)
    machine.made(1)
    assert machine.may_roll
    assert machine.roll() == [Discard(1), MakeSegment(2, 10)]
    assert machine.made(2) == [CloseSegment(0)]


def test_an_empty_segment_is_not_ended() -> None:
    machine = LogPipeline(7)
    assert not machine.may_roll
    assert machine.roll() == []


def test_a_failed_segment_is_recovered_and_what_is_behind_its_end_goes_to_the_next_one() -> None:
    machine = LogPipeline(0)
    machine.appended(10)
    assert machine.failed(0, FAILED, is_final=False) == [RecoverSegment(0)]
    assert machine.appended(1) is None
    assert machine.recovered(0, 6) == [ConfirmRecords(6), MakeSegment(1, 6)]
    assert machine.made(1) == [Submit(1, 6, 11), Join(0, 6, 1)]
    assert machine.joined() == []
    assert machine.progressed(1, 4) == [ConfirmRecords(11)]


def test_a_next_segment_that_begins_elsewhere_than_the_last_one_ended_is_made_anew() -> None:
    machine = rolling()
    assert machine.made(1) == [CloseSegment(0)]
    assert machine.failed(0, FAILED, is_final=False) == [RecoverSegment(0)]
    assert machine.recovered(0, 8) == [ConfirmRecords(8), Discard(1), MakeSegment(2, 8)]
    assert machine.made(2) == [Submit(2, 8, 10), Join(0, 8, 2)]


def test_a_next_segment_is_kept_where_a_recovery_found_all() -> None:
    machine = rolling()
    machine.made(1)
    machine.failed(0, FAILED, is_final=False)
    assert machine.recovered(0, 10) == [ConfirmRecords(10), Join(0, 10, 1)]


def test_a_next_segment_that_fails_is_made_anew_at_the_same_position() -> None:
    machine = rolling()
    machine.appended(3)
    machine.made(1)
    assert machine.failed(1, FAILED, is_final=False) == [Discard(1), MakeSegment(2, 10)]
    assert machine.progressed(0, 9) == [ConfirmRecords(10)]
    assert machine.closed(0) == []
    assert machine.made(2) == [Submit(2, 10, 13), Join(0, 10, 2)]


def test_a_next_segment_that_fails_while_it_joins_is_recovered_behind_that() -> None:
    machine = rolling()
    machine.made(1)
    machine.progressed(0, 9)
    machine.closed(0)
    assert machine.failed(1, FAILED, is_final=False) == []
    assert machine.joined() == [RecoverSegment(1)]


def test_a_final_failure_ends_the_writer_and_keeps_what_may_be_in_the_record() -> None:
    machine = rolling()
    machine.made(1)
    assert machine.failed(0, FAILED, is_final=True) == [Discard(1), FinishWriter(FAILED)]
    machine = rolling()
    machine.made(1)
    machine.progressed(0, 9)
    machine.closed(0)
    assert machine.fail(FAILED) == [FinishWriter(FAILED)], "the record may name segment 1 by now"
    assert machine.joined() == []


def test_segments_that_keep_failing_end_the_writer() -> None:
    machine = LogPipeline(0)
    machine.appended(1)
    number = 0
    for _ in range(FAILURES_MAX):
        assert machine.failed(number, FAILED, is_final=False) == [RecoverSegment(number)]
        assert machine.recovered(number, 0) == [MakeSegment(number + 1, 0)]
        machine.made(number + 1)
        machine.joined()
        number += 1
    assert machine.failed(number, FAILED, is_final=False) == [FinishWriter(FAILED)]


@pytest.mark.parametrize("made", [False, True])
def test_closing_ends_the_last_segment_and_drops_the_one_that_nobody_will_append_to(made: bool) -> None:
    machine = rolling()
    machine.progressed(0, 9)
    effects = machine.made(1) if made else []
    effects += machine.close()
    assert effects == ([CloseSegment(0), Discard(1)] if made else [CloseSegment(0)])
    assert machine.closed(0) == [Join(0, 10, None)]
    assert machine.joined() == [FinishWriter(None)]
    assert machine.made(1) == [Discard(1)] or made


class World:
    """Ledgers and a log's record as the effects make them; what is still to be answered is answered in any order."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.machine = LogPipeline(0)
        self.first = {0: 0}
        self.ledgers: dict[int, list[int]] = {0: []}
        self.on_disk = {0: 0}
        self.dead: set[int] = set()
        self.chain: list[tuple[int, int | None]] = [(0, None)]
        self.confirmed = 0
        self.due: list[Callable[[], list[LogEffect]]] = []

    def perform(self, effects: list[LogEffect]) -> None:
        for effect in effects:
            match effect:
                case Submit(number, first, stop):
                    self.append(number, range(first, stop))
                case MakeSegment(number, first):
                    self.due.append(lambda number=number, first=first: self.make(number, first))  # type: ignore[misc]
                case CloseSegment(number):
                    self.due.append(lambda number=number: self.close(number))  # type: ignore[misc]
                case RecoverSegment(number):
                    self.due.append(lambda number=number: self.recover(number))  # type: ignore[misc]
                case Join():
                    self.due.append(lambda join=effect: self.join(join))  # type: ignore[misc]
                case ConfirmRecords(end):
                    assert end > self.confirmed
                    self.confirmed = end
                    assert self.readable() >= end, "whoever takes over finds all that is confirmed"
                case Discard(number):
                    assert number not in [n for n, _ in self.chain]
                case FinishWriter():
                    raise AssertionError("nothing here is final")

    def readable(self) -> int:
        """What a take-over finds: the ended segments, and what is on disk of the last one."""
        number, end = self.chain[-1]
        return self.first[number] + self.on_disk[number] if end is None else end

    def append(self, number: int, positions: range) -> None:
        if number not in self.dead:
            assert positions.start == self.first[number] + len(self.ledgers[number])
            self.ledgers[number] += positions

    def make(self, number: int, first: int) -> list[LogEffect]:
        if self.machine.may_go_on_without(number) and self.rng.random() < 0.2:
            return self.machine.not_made(number, FAILED)
        self.first[number], self.ledgers[number], self.on_disk[number] = first, [], 0
        return self.machine.made(number)

    def close(self, number: int) -> list[LogEffect]:
        if number in self.dead:
            return self.machine.failed(number, FAILED, is_final=False)
        self.on_disk[number] = len(self.ledgers[number])
        return [*self.machine.progressed(number, self.on_disk[number] - 1), *self.machine.closed(number)]

    def recover(self, number: int) -> list[LogEffect]:
        self.on_disk[number] = self.rng.randint(self.on_disk[number], len(self.ledgers[number]))
        return self.machine.recovered(number, self.first[number] + self.on_disk[number])

    def join(self, join: Join) -> list[LogEffect]:
        tail, end = self.chain[-1]
        assert (tail, end) == (join.tail, None)
        assert join.end_position == self.first[tail] + self.on_disk[tail]
        assert join.next is not None
        assert self.first[join.next] == join.end_position
        self.chain[-1:] = [(tail, join.end_position), (join.next, None)]
        return self.machine.joined()

    def step(self) -> None:
        alive = [n for n in self.ledgers if n not in self.dead]
        match self.rng.choice(["append", "append", "disk", "disk", "roll", "answer", "answer", "die"]):
            case "append":
                first = self.machine.next_position
                room = self.machine.room
                count = min(self.rng.randint(1, 4), room)
                number = self.machine.appended(count)
                if number is not None:
                    self.append(number, range(first, first + count))
                if count == room:
                    self.perform(self.machine.cut_reached())
            case "disk" if alive:
                number = self.rng.choice(alive)
                self.on_disk[number] = self.rng.randint(self.on_disk[number], len(self.ledgers[number]))
                self.perform(self.machine.progressed(number, self.on_disk[number] - 1))
            case "roll":
                self.perform(self.machine.roll(self.rng.choice([0, 0, 1, 5])))
            case "answer" if self.due:
                self.perform(self.due.pop(self.rng.randrange(len(self.due)))())
            case "die" if alive and self.rng.random() < 0.05:
                number = self.rng.choice(alive)
                self.dead.add(number)
                self.perform(self.machine.failed(number, FAILED, is_final=False))


@pytest.mark.parametrize("seed", range(200))
def test_whatever_happens_positions_are_dense_and_what_is_confirmed_is_found_by_whoever_takes_over(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledgers.logs.writing.log_pipeline.FAILURES_MAX", 10**9)
    world = World(random.Random(seed))
    for _ in range(400):
        world.step()
    chain = [p for n, end in world.chain for p in world.ledgers[n] if end is None or p < end]
    assert chain == list(range(len(chain)))
    assert len(chain) >= world.confirmed > 0
