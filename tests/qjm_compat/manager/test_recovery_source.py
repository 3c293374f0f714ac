"""Which copy a recovery takes (§2.9 of the QJM design): the rules one by one, and that they make an order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qjm_compat.errors import BadRequest, RuleViolated
from qjm_compat.manager.proposer import best_source, compare, max_seen_epoch
from qjm_compat.requests import PrepareReply, SegmentState


def reply(
    end_txid: int | None,
    *,
    in_progress: bool = True,
    accepted: int | None = None,
    writer: int = 1,
    committed: int | None = None,
    start_txid: int = 101,
) -> PrepareReply:
    segment = None if end_txid is None else SegmentState(start_txid, end_txid, in_progress, writer)
    return PrepareReply(segment, accepted, writer, committed)


BETTER = {
    "1: a copy beats none": (reply(101), reply(None, writer=9, accepted=None)),
    "2: a finalized copy beats one in progress": (
        reply(102, in_progress=False),
        reply(199, writer=9, accepted=9),
    ),
    "3b: a later writer beats a longer copy": (reply(101, writer=2), reply(153, writer=1)),
    "3b: a later recovery beats a longer copy": (reply(150, accepted=2), reply(153)),
    "3b: a later writer beats an earlier recovery": (reply(101, writer=3), reply(153, accepted=2)),
    "3b: a later recovery beats an earlier writer": (reply(101, accepted=4), reply(153, writer=3)),
    "3c: of one epoch the longer copy wins": (reply(153), reply(150)),
}


@pytest.mark.parametrize("rule", BETTER)
def test_the_rules_decide_in_their_order(rule: str) -> None:
    better, worse = BETTER[rule]
    assert compare(better, worse) > 0
    assert compare(worse, better) < 0
    assert best_source({0: worse, 1: better}) == 1
    assert best_source({0: better, 1: worse}) == 0


def test_equal_copies_are_equal_and_the_first_of_them_is_taken() -> None:
    pairs = ((reply(None), reply(None, writer=3)), (reply(150), reply(150)))
    for one, other in pairs:
        assert compare(one, other) == compare(other, one) == 0
    final = reply(150, in_progress=False)
    assert compare(final, reply(150, in_progress=False, writer=2)) == 0
    assert best_source({2: reply(150), 1: reply(150), 0: reply(149)}) == 1


def test_finalized_copies_of_different_lengths_are_never_chosen_between() -> None:
    with pytest.raises(RuleViolated, match="finalized segs with different lengths"):
        best_source({0: reply(150, in_progress=False), 1: reply(151, in_progress=False)})


def test_segments_that_begin_elsewhere_are_not_compared() -> None:
    with pytest.raises(BadRequest, match="do not begin at the same txid"):
        compare(reply(150), reply(250, start_txid=201))


def test_a_copy_that_lacks_what_was_committed_is_not_taken() -> None:
    with pytest.raises(RuleViolated, match="txid 151 was committed"):
        best_source({0: reply(150), 1: reply(None, committed=151)})
    assert best_source({0: reply(150), 1: reply(None, committed=150)}) == 0
    assert best_source({0: reply(None, committed=100)}) == 0


replies = st.builds(
    reply, st.none() | st.integers(101, 104), accepted=st.none() | st.integers(1, 4), writer=st.integers(0, 4)
)
"""Segments in progress, or none; final ones that differ are an error."""

final_ones = st.integers(0, 4).map(lambda writer: reply(103, in_progress=False, writer=writer))
with_one_final = replies | final_ones


@given(with_one_final, with_one_final, with_one_final)
def test_better_is_a_total_preorder(a: PrepareReply, b: PrepareReply, c: PrepareReply) -> None:
    assert compare(a, a) == 0
    assert compare(a, b) == -compare(b, a)
    if compare(a, b) >= 0 and compare(b, c) >= 0:
        assert compare(a, c) >= 0
        assert (compare(a, c) == 0) == (compare(a, b) == 0 and compare(b, c) == 0)


@given(st.lists(with_one_final, min_size=1, max_size=5))
def test_nobody_is_better_than_the_source_that_is_taken(found: list[PrepareReply]) -> None:
    best = found[best_source(dict(enumerate(found)))]
    assert all(compare(one, best) <= 0 for one in found)


def test_the_latest_epoch_seen_is_that_of_the_writer_or_of_a_recovery() -> None:
    assert max_seen_epoch(reply(1, accepted=None, writer=3)) == 3
    assert max_seen_epoch(reply(1, accepted=5, writer=3)) == 5
    assert max_seen_epoch(reply(1, accepted=2, writer=3)) == 3
