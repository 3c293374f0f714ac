"""What a log's writer knows of producers: what is there already, what is too old, and what is forgotten."""

from __future__ import annotations

import pytest

from bookledger.errors import ProducerForgotten, SequenceTooOld
from ledgers.logs.producers import producer_memory as module
from ledgers.logs.producers.producer_memory import SECONDS_MAX, ProducerMemory
from metadata.records.logs.producer_record import Heard, Run

NOON = 1_700_000_000_000_000


def read(
    memory: ProducerMemory, *records: tuple[str, int] | None, first: int = 0, time_us: int = NOON
) -> None:
    """A log that has these records, from this position on."""
    producers, sequences = zip(*((None, None) if one is None else one for one in records), strict=True)
    memory.read(producers, sequences, first, time_us)


def test_what_is_stored_already_has_its_position_and_what_is_new_none() -> None:
    memory = ProducerMemory()
    assert memory.take("a", 7, 1, 0) == ()
    assert memory.take("b", 1, 1, 1) == ()
    assert memory.take("a", 7, 1, 2) == [0]  # not confirmed yet
    memory.confirmed(2, NOON)
    assert memory.take("a", 7, 1, 2) == [0]
    assert memory.take("a", 9, 1, 2) == ()
    assert memory.take("a", 9, 1, 3) == [2]


def test_an_older_sequence_is_refused_and_the_error_says_what_is_the_last() -> None:
    memory = ProducerMemory()
    memory.take("a", 7, 1, 0)
    memory.take("a", 8, 1, 1)
    with pytest.raises(
        SequenceTooOld, match="sequence 6 of producer 'a' is older than its last one, 8"
    ) as old:
        memory.take("a", 6, 1, 2)
    assert (old.value.last_sequence, old.value.last_position) == (8, 1)


def test_of_a_batch_that_is_stored_in_part_the_rest_is_new() -> None:
    memory = ProducerMemory()
    assert memory.take("a", 10, 5, 0) == ()
    memory.confirmed(3, NOON)  # and then its writer died
    after = ProducerMemory(memory.snapshot(NOON))
    assert after.snapshot(NOON).producers == (("a", Heard([Run(10, 0, 3)], NOON)),)
    assert after.take("a", 10, 5, 4) == [0, 1, 2]
    assert after.take("a", 10, 5, 6) == [0, 1, 2, 4, 5]  # no longer one after the other
    after.confirmed(6, NOON)
    assert after.snapshot(NOON).producers == (("a", Heard([Run(10, 0, 3), Run(13, 4, 2)], NOON)),)


def test_whatever_is_remembered_is_found_again_alone_or_in_any_batch() -> None:
    memory = ProducerMemory()
    read(memory, ("a", 1), None, ("a", 2), ("a", 3), ("b", 1), ("a", 7))
    assert memory.take("a", 8, 2, 6) == ()
    memory.confirmed(7, NOON)  # half of it
    assert memory.take("a", 1, 3, 8) == [0, 2, 3]
    assert memory.take("a", 2, 1, 8) == [2]
    assert memory.take("a", 7, 4, 8) == [5, 6, 7]  # and the last of these is new
    assert memory.take("a", 9, 2, 9) == [7, 8]
    assert memory.last_sequence("a") == 10
    for missing in (0, 4, 6):  # these are nowhere
        with pytest.raises(SequenceTooOld):
            memory.take("a", missing, 2, 9)


def test_runs_out_of_the_bounds_are_too_old_and_the_earliest_of_all_go_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "RUNS_OF_ONE_MAX", 3)
    monkeypatch.setattr(module, "EARLIER_RUNS_MAX", 4)
    memory = ProducerMemory()
    read(memory, *(pair for n in range(5) for pair in (("a", 2 * n), ("b", 2 * n))))
    for known in (memory, ProducerMemory(memory.snapshot(NOON))):
        assert [known.take("a", n, 1, 10) for n in (4, 6, 8)] == [[4], [6], [8]]
        with pytest.raises(SequenceTooOld):
            known.take("a", 2, 1, 10)
        read(known, ("c", 0), ("b", 9), ("c", 2), first=10)  # "c" has a second run, which is one too many
        with pytest.raises(SequenceTooOld):
            known.take("a", 4, 1, 13)
        assert [known.take("a", n, 1, 13) for n in (6, 8)] == [[6], [8]]
        assert known.take("b", 8, 2, 13) == [9, 11]


def test_a_sequence_that_the_log_has_twice_is_known_where_it_is_last() -> None:
    """Nobody knew any more that the log had forgotten the producer."""
    memory = ProducerMemory()
    read(memory, ("a", 5), None, ("a", 7), ("a", 5))
    assert memory.snapshot(NOON).producers == (("a", Heard([Run(5, 3, 1)], NOON)),)


def test_two_memories_that_were_told_the_same_know_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """One as a writer that appended, the other as one that took over and read the log, from a snapshot on."""
    monkeypatch.setattr(module, "PRODUCERS_MAX", 3)
    monkeypatch.setattr(module, "FORGOTTEN_MAX", 2)
    monkeypatch.setattr(module, "RUNS_OF_ONE_MAX", 3)
    monkeypatch.setattr(module, "EARLIER_RUNS_MAX", 4)
    records = [(f"p{n * n % 7}", n) for n in range(40)]
    wrote, later = ProducerMemory(), ProducerMemory()
    for position, (producer, sequence) in enumerate(records):
        wrote._add(producer, Run(sequence, position, 1))
        wrote.confirmed(position + 1, NOON)
        if position == 20:
            later = ProducerMemory(wrote.snapshot(NOON))
    read(later, *records[21:], first=21)
    assert later.snapshot(NOON) == wrote.snapshot(NOON)
    assert later.forgotten_count > 3


def test_a_producer_that_falls_out_of_the_bound_is_refused_and_not_taken_for_a_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PRODUCERS_MAX", 2)
    memory = ProducerMemory()
    read(memory, ("a", 1), ("b", 1), ("a", 2), ("c", 1))
    assert memory.forgotten_count == 1
    for known in (memory, ProducerMemory(memory.snapshot(NOON))):
        with pytest.raises(ProducerForgotten, match="the log has forgotten producer 'b'"):
            known.take("b", 1, 1, 4)
        assert known.take("new", 1, 1, 4) == ()
        assert known.take("a", 2, 1, 5) == [2]


def test_a_producer_that_was_not_heard_of_for_long_is_forgotten() -> None:
    memory = ProducerMemory()
    read(memory, ("a", 1))
    read(memory, ("b", 1), first=1, time_us=NOON + 1)
    snapshot = memory.snapshot(NOON + int(SECONDS_MAX * 1_000_000) + 1)
    assert [name for name, _ in snapshot.producers] == ["b"]
    with pytest.raises(ProducerForgotten):
        memory.take("a", 2, 1, 2)
