"""The examples of the QJM design (§2.10), with every quorum that may answer the recovery.

Each row says where the acceptors stand; each column, whom the next writer reaches. It must take the right source
and end, leave the same finalized segment at all it reached, and touch nobody else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from qjm_compat.errors import QuorumFailed
from qjm_compat.requests import AcceptRecovery, FinalizeLogSegment, NewEpoch, SegmentState
from tests.qjm_compat.acceptor.one_writer import OneWriter, content, edits, formatted, logs, writer_of
from tests.qjm_compat.by_hand import ALL, NAMES, ThreeDisks, WriterByHand

A, B, C = range(3)
QUORUMS = (frozenset({A, B}), frozenset({A, C}), frozenset({B, C}), ALL)


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a recovery must decide: whose copy, and where it ends; `by` is the epoch that wrote it."""

    source: int
    end_txid: int
    by: int = 1


@dataclass(frozen=True, slots=True)
class Example:
    """How the acceptors came to differ, the segment in question, and the decision for each of QUORUMS."""

    before: Callable[[ThreeDisks], Awaitable[None]]
    start_txid: int
    decisions: tuple[Chosen, Chosen, Chosen, Chosen]


async def first_writers(three: ThreeDisks) -> list[OneWriter]:
    """Epoch 1 at every acceptor of a new journal."""
    for acceptor in three.acceptors:
        await formatted(acceptor)
    return [await writer_of(acceptor, 1) for acceptor in three.acceptors]


async def open_up_to(three: ThreeDisks, ends: tuple[int, int, int]) -> list[OneWriter]:
    """Segment 101 in progress, at each acceptor up to its own end."""
    writers = await first_writers(three)
    for writer, end in zip(writers, ends, strict=True):
        await writer.start(101)
        await writer.send(101, 101, end - 100)
    return writers


async def final_at_all(three: ThreeDisks) -> list[OneWriter]:
    writers = await open_up_to(three, (150, 150, 150))
    for writer in writers:
        await writer.finalize(101, 150)
    return writers


async def q1(three: ThreeDisks) -> None:
    """Edits that a quorum has are recovered from any of them."""
    await open_up_to(three, (150, 153, 153))


async def q2(three: ThreeDisks) -> None:
    """Edits without a quorum may go either way and the longest copy that answers wins."""
    await open_up_to(three, (150, 153, 125))


async def q3(three: ThreeDisks) -> None:
    """A segment finalized at a quorum is finalized everywhere."""
    writers = await open_up_to(three, (150, 150, 145))
    for number in (A, B):
        await writers[number].finalize(101, 150)


async def q4(three: ThreeDisks) -> None:
    """A segment finalized at one is finalized there or from the longest copy."""
    writers = await open_up_to(three, (150, 150, 125))
    await writers[A].finalize(101, 150)


async def q5(three: ThreeDisks) -> None:
    """A segment that was only begun never was."""
    writers = await final_at_all(three)
    await writers[A].start(151)


async def q6(three: ThreeDisks) -> None:
    """A later writer's single edit beats an earlier writer's longer copy.

    Writer 1's first batch of the segment got to A only; writer 2 knew nothing of it and committed one edit.
    """
    writers = await final_at_all(three)
    for writer in writers:
        await writer.start(151)
    await writers[A].send(151, 151, 3)
    second = WriterByHand(three, {B, C})
    assert second.recover() == SegmentState(101, 150, False, 1)
    second.start(151)
    assert second.send(151, 151) == {B, C}


async def q7(three: ThreeDisks) -> None:
    """What an earlier recovery accepted beats a longer copy.

    A recovery through A and C decided 150, and died when it had finalized it at C.
    """
    await open_up_to(three, (150, 153, 125))
    first = WriterByHand(three, {A, C})
    first.lost = lambda number, request: number == A and isinstance(request, FinalizeLogSegment)
    with pytest.raises(QuorumFailed):
        first.recover()
    assert (await OneWriter(three.acceptors[A], 2, first_serial=50).prepare(101)).accepted_in_epoch == 2
    assert await logs(three.acceptors[C]) == [(101, 150, False)]


async def q15(three: ThreeDisks) -> None:
    """Of equal ends the later writer's edits are everywhere in the end.

    Writer 1 wrote 10 and 11 at A only; writer 2, who knew nothing of it, wrote others there at B and C.
    """
    first, *_ = await first_writers(three)
    await first.write_open(10, 11)
    second = WriterByHand(three, {B, C})
    assert second.recover() is None
    second.start(10)
    assert second.send(10, 10, 2) == {B, C}


EXAMPLES = {
    "Q1": Example(q1, 101, (Chosen(B, 153), Chosen(C, 153), Chosen(B, 153), Chosen(B, 153))),
    "Q2": Example(q2, 101, (Chosen(B, 153), Chosen(A, 150), Chosen(B, 153), Chosen(B, 153))),
    "Q3": Example(q3, 101, (Chosen(A, 150), Chosen(A, 150), Chosen(B, 150), Chosen(A, 150))),
    "Q4": Example(q4, 101, (Chosen(A, 150), Chosen(A, 150), Chosen(B, 150), Chosen(A, 150))),
    "Q5": Example(q5, 101, (Chosen(A, 150), Chosen(A, 150), Chosen(B, 150), Chosen(A, 150))),
    "Q6": Example(q6, 151, (Chosen(B, 151, 2), Chosen(C, 151, 2), Chosen(B, 151, 2), Chosen(B, 151, 2))),
    "Q7": Example(q7, 101, (Chosen(A, 150), Chosen(C, 150), Chosen(C, 150), Chosen(C, 150))),
    "Q15": Example(q15, 10, (Chosen(B, 11, 2), Chosen(C, 11, 2), Chosen(B, 11, 2), Chosen(B, 11, 2))),
}


@pytest.mark.parametrize(
    "column", range(len(QUORUMS)), ids=["".join(NAMES[n] for n in sorted(quorum)) for quorum in QUORUMS]
)
@pytest.mark.parametrize("name", EXAMPLES)
async def test_every_example_is_recovered_as_it_says_from_whoever_answers(name: str, column: int) -> None:
    example, reached, chosen = EXAMPLES[name], QUORUMS[column], EXAMPLES[name].decisions[column]
    three = ThreeDisks()
    await example.before(three)
    untouched = {n: three.disks[NAMES[n]].state for n in ALL - reached}

    writer = WriterByHand(three, reached)
    recovered = writer.recover()

    assert recovered is not None
    assert (recovered.start_txid, recovered.end_txid) == (example.start_txid, chosen.end_txid)
    (accept,) = [ask.request for ask in writer.asked if isinstance(ask.request, AcceptRecovery)]
    assert accept.source == NAMES[chosen.source]
    await check_final_at(three, reached, example.start_txid, chosen)
    assert {n: three.disks[NAMES[n]].state for n in ALL - reached} == untouched
    await check_goes_on(three, writer, example.start_txid, chosen)


async def check_final_at(three: ThreeDisks, numbers: frozenset[int], start_txid: int, chosen: Chosen) -> None:
    for number in numbers:
        acceptor = three.acceptors[number]
        assert (await logs(acceptor))[-1] == (start_txid, chosen.end_txid, False)
        assert await content(acceptor, start_txid) == edits(start_txid, chosen.end_txid, chosen.by)


async def check_goes_on(three: ThreeDisks, writer: WriterByHand, start_txid: int, chosen: Chosen) -> None:
    """The writer writes on; and when all acceptors are there again, the next one brings them to the same truth."""
    next_txid = chosen.end_txid + 1
    writer.start(next_txid)
    assert writer.send(next_txid, next_txid) == writer.reaches
    again = WriterByHand(three)
    recovered = again.recover()
    assert recovered is not None
    assert (recovered.start_txid, recovered.end_txid) == (next_txid, next_txid)
    for number in writer.reaches:
        assert (await logs(three.acceptors[number]))[-2:] == [
            (start_txid, chosen.end_txid, False),
            (next_txid, next_txid, False),
        ]


async def test_an_acceptor_that_missed_the_choice_does_not_finalize_its_own_edits_of_the_same_end() -> None:
    """Q15."""
    three = ThreeDisks()
    await q15(three)
    writer = WriterByHand(three)
    writer.lost = lambda number, request: number == A and isinstance(request, AcceptRecovery)
    assert writer.recover() == SegmentState(10, 11, True, 2)
    assert await logs(three.acceptors[A]) == [(10, 11, True)]
    for number in (B, C):
        assert await content(three.acceptors[number], 10) == edits(10, 11, 2)
    later = WriterByHand(three, {A, B})
    assert later.recover() == SegmentState(10, 11, False, 2)
    assert await content(three.acceptors[A], 10) == edits(10, 11, 2)


async def test_a_source_that_dies_between_the_two_phases_fails_the_recovery_and_the_next_one_succeeds() -> (
    None
):
    three = ThreeDisks()
    await q2(three)
    writer = WriterByHand(three)
    ledgers = three.disks["b"].ledgers.copy()

    def lost(number: int, request: object) -> bool:
        if isinstance(request, AcceptRecovery):
            three.disks["b"].ledgers.clear()
        return number == B and isinstance(request, AcceptRecovery)

    writer.lost = lost
    with pytest.raises(QuorumFailed, match="acceptRecovery"):
        writer.recover()
    three.disks["b"].ledgers.update(ledgers)
    recovered = WriterByHand(three).recover()
    assert recovered is not None
    assert recovered.end_txid == 153


async def test_nothing_is_recovered_where_no_acceptor_of_the_quorum_holds_an_edit() -> None:
    three = ThreeDisks()
    writers = await first_writers(three)
    await writers[A].write_open(1, 2)
    writer = WriterByHand(three)
    writer.lost = lambda number, request: number == A and not isinstance(request, NewEpoch)
    assert writer.recover() is None
    writer.start(1)
    assert writer.send(1, 1) == {B, C}
    assert WriterByHand(three).recover() == SegmentState(1, 1, True, 2)
    assert await content(three.acceptors[A], 1) == edits(1, 1, 2)
