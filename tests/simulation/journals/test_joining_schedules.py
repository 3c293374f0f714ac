"""Acceptors that are brought up to date, lost and replaced: what random schedules do not come upon, call by call."""

from __future__ import annotations

from typing import Any

import pytest

from qjm_compat.acceptor.programs.acceptor_effects import Copied, CopySegment, SwapState
from qjm_compat.acceptor.programs.sync_programs import (
    SyncOutcome,
    make_room_for_another,
    segments_held,
    take_finalized,
)
from qjm_compat.errors import BadJournalState, StaleEpoch
from qjm_compat.requests import Format, GetJournalState, NewEpoch, PurgeLogs, RemoteEditLog
from qjm_compat.sync.joining import epochs_above, format_to_join
from tests.qjm_compat.by_hand import NAMES
from tests.qjm_compat.model import ModelAcceptor, ModelDisk

from .edits import frames
from .three import A, B, C, Three
from .users import NAMESPACE

ONE = RemoteEditLog(1, 2, writer_epoch=1)


def one_finalized(*who: int) -> Three:
    """Segment 1-2 of epoch 1 is finalized at these."""
    three = Three()
    three.promise(1, A, B, C)
    three.start(1, 1, *who)
    three.send(1, 1, 1, 2, *who)
    three.finalize(1, 1, 2, *who)
    return three


def take(three: Three, target: int, log: RemoteEditLog, source: str) -> None:
    """The acceptor is brought up to date with one segment."""
    acceptor = three.acceptors[target]
    copied: Copied = acceptor.perform(CopySegment(source, log.start_txid, log.end_txid, log.writer_epoch))
    assert acceptor.run(take_finalized(acceptor.memory, log, copied)) is SyncOutcome.COPIED


def replaced(three: Three, lost: int) -> Format:
    """The acceptor loses everything, and joins the others as `journal format` has it."""
    name = NAMES[lost]
    three.disks[name] = ModelDisk()
    three.restart(lost)
    others = {NAMES[n]: three.acceptors[n] for n in (A, B, C) if n != lost}
    held = {one: acceptor.run(segments_held(acceptor.memory)) for one, acceptor in others.items()}
    above = epochs_above(held)
    held = {
        one: acceptor.run(make_room_for_another(acceptor.memory, above)) for one, acceptor in others.items()
    }
    request = format_to_join("ns1", held, [name], NAMESPACE)
    three.acceptors[lost].answer(request)
    return request


def test_a_writer_that_was_overtaken_is_refused_by_the_one_that_joined() -> None:
    """The majority that refused it has lost one, and the third never heard of its successor."""
    three = one_finalized(A, B, C)
    three.promise(2, B, C)
    three.start(1, 3, A)
    assert replaced(three, C).promised_epoch == 2
    with pytest.raises(StaleEpoch):
        three.start(1, 3, C)
    three.start(2, 3, B, C)


def test_what_the_lost_one_had_promised_nobody_is_promised_any_more() -> None:
    three = one_finalized(A, B, C)
    three.promise(2, C)  # and it has asked the others, who have not heard it yet
    replaced(three, C)
    for late in (A, B):
        with pytest.raises(StaleEpoch, match="Proposed epoch 2 <= last promise 1001"):
            three.acceptors[late].answer(NewEpoch(NAMESPACE, 2))
    three.start(1, 3, A, B, C)  # whoever is the writer goes on, with the new one
    promised = {acceptor.answer(GetJournalState()).last_promised_epoch for acceptor in three.acceptors}
    assert promised == {1001, 1}
    three.promise(1002, A, B, C)


def test_an_edit_that_the_lost_one_had_acknowledged_is_recovered_from_the_other_that_has_it() -> None:
    three = one_finalized(A, B, C)
    three.start(1, 3, A, B, C)
    three.send(1, 3, 3, 1, A, B, C)
    three.send(1, 3, 4, 1, B, C)  # acknowledged
    assert replaced(three, C).joined_behind == 3
    three.promise(1002, A, B, C)
    with pytest.raises(Exception, match="does not know what was written to segment 3"):
        three.prepare(1002, 3, A, C)
    state, source = three.chosen(1002, 3, A, B)
    assert (state.end_txid, source) == (4, B)
    three.accept(1002, state, source, A, C)
    three.finalize(1002, 3, 4, A, C)
    assert three.content(C, 3) == frames(1, 3, 2)
    assert three.chosen(1002, 3, A, C)[0].end_txid == 4


def finalized_with_one_that_was_lost_then() -> Three:
    """Segment 3-4 is finalized by the lost one, and by another that hears of it only after the new one has joined.

    The third lags. Then the writer starts its next segment at the new one, and dies.
    """
    three = one_finalized(A, B, C)
    three.start(1, 3, A, C)
    three.send(1, 3, 3, 2, A, C)  # acknowledged
    three.finalize(1, 3, 4, C)
    assert replaced(three, C).joined_behind == 3
    take(three, C, ONE, "a")
    three.finalize(1, 3, 4, A)
    three.start(1, 5, C)
    return three


def test_a_segment_that_the_lost_one_had_finalized_is_not_forgotten_when_the_next_one_starts() -> None:
    three = finalized_with_one_that_was_lost_then()
    latest = three.acceptors[C].answer(NewEpoch(NAMESPACE, 1002))
    three.promise(1002, B)
    assert latest.last_segment_txid == 3
    with pytest.raises(BadJournalState, match="does not know what was written to segment 3"):
        three.prepare(1002, 3, B, C)
    take(three, C, RemoteEditLog(3, 4, writer_epoch=1), "a")
    assert three.chosen(1002, 3, B, C)[0].end_txid == 4
    take(three, B, RemoteEditLog(3, 4, writer_epoch=1), "c")
    assert replaced(three, A).joined_behind == 0
    assert three.seen(A, B) == three.seen(A, C) == [(1, 2), (3, 4)]


def test_no_other_is_replaced_before_it_has_that_segment() -> None:
    three = finalized_with_one_that_was_lost_then()
    with pytest.raises(BadJournalState, match="acceptor c itself joined the journal while segment 3 was in"):
        replaced(three, A)


def test_a_swap_that_was_built_upon_before_its_answer_keeps_its_ledger() -> None:
    """It looks like another's, and what it took in is there: by itself."""
    three = one_finalized(A, B)
    acceptor = three.acceptors[C]
    copied: Copied = acceptor.perform(CopySegment("a", 1, 2, 1))
    steps = take_finalized(acceptor.memory, ONE, copied)
    other = ModelAcceptor("ns1", "c", three.disks)
    outcome: Any = None
    with pytest.raises(StopIteration) as ended:
        while True:
            effect = steps.send(outcome)
            outcome = acceptor.perform(effect)
            if isinstance(effect, SwapState) and effect.state.last_finalized_start == 1:
                other.answer(PurgeLogs(info=three.info(1), min_txid_to_keep=1))
                other.answer(NewEpoch(NAMESPACE, 7))
                outcome = None
    assert ended.value.value is SyncOutcome.COPIED
    assert three.content(C, 1) == frames(1, 1, 2)


@pytest.mark.parametrize("stop_at", range(12))
def test_a_crash_anywhere_in_taking_in_leaves_all_of_it_or_nothing(stop_at: int) -> None:
    three = one_finalized(A, B)
    acceptor = three.acceptors[C]
    copied: Copied = acceptor.perform(CopySegment("a", 1, 2, 1))
    steps, outcome = take_finalized(acceptor.memory, ONE, copied), None
    try:
        for _ in range(stop_at):
            outcome = acceptor.perform(steps.send(outcome))
    except StopIteration:
        pass
    three.restart(C)
    again = three.acceptors[C]
    taken = again.run(take_finalized(again.memory, ONE, None))
    assert taken in (SyncOutcome.LACKING, SyncOutcome.THERE)
    if taken is SyncOutcome.LACKING:
        copied = again.perform(CopySegment("b", 1, 2, 1))
        assert again.run(take_finalized(again.memory, ONE, copied)) is SyncOutcome.COPIED
    assert three.content(C, 1) == frames(1, 1, 2)
    assert three.seen(A, C) == [(1, 2)]
