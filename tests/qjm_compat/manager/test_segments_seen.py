"""What a reader may read: finalized segments, and of one in progress what a quorum of one writer's copies has.

J6: readers get only edits that a quorum has on disk.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgers.protocol.quorum import majority
from qjm_compat.errors import EditsMissing, RuleViolated
from qjm_compat.manager.proposer_effects import Acceptors, Answers, CallAcceptors, Need
from qjm_compat.manager.segments_seen import (
    SegmentSeen,
    check_no_gap,
    durable_edits,
    readable_segments,
    segments_seen,
)
from qjm_compat.requests import GetEditLogManifest, JournaledEdits, Manifest, RemoteEditLog

THREE = majority((0, 1, 2))
ONE = majority((0,))


def final(start: int, end: int, by: int = 1) -> RemoteEditLog:
    return RemoteEditLog(start, end, False, by)


def open_one(
    start: int, end: int, by: int = 1, committed: int | None = None, accepted: int = 0
) -> RemoteEditLog:
    return RemoteEditLog(start, end, True, by, committed, accepted)


def seen(*logs: list[RemoteEditLog], only_durable: bool = True) -> list[SegmentSeen]:
    return segments_seen({n: Manifest(each) for n, each in enumerate(logs)}, THREE, only_durable=only_durable)


def ends(found: list[SegmentSeen]) -> list[tuple[int, int, bool]]:
    return [(segment.first_txid, segment.last_txid, segment.in_progress) for segment in found]


def readers(segment: SegmentSeen) -> list[int]:
    return [copy.acceptor for copy in segment.copies]


def test_every_segment_is_seen_once_and_in_order() -> None:
    found = seen([final(4, 6), final(7, 9)], [final(1, 3), final(4, 6)])
    assert ends(found) == [(1, 3, False), (4, 6, False), (7, 9, False)]
    assert [readers(segment) for segment in found] == [[1], [0, 1], [0]]


def test_a_finalized_copy_overrules_those_in_progress() -> None:
    (found,) = seen([open_one(1, 9)], [final(1, 3)], [open_one(1, 2)])
    assert ends([found]) == [(1, 3, False)]
    assert readers(found) == [1]


def test_finalized_copies_of_different_ends_are_an_error() -> None:
    with pytest.raises(RuleViolated, match="finalized with different ends"):
        seen([final(1, 3)], [final(1, 4)])


def test_what_is_in_progress_inside_of_a_finalized_segment_was_overruled() -> None:
    found = seen([final(1, 6)], [open_one(4, 9), final(10, 11)], [open_one(4, 9)])
    assert ends(found) == [(1, 6, False), (10, 11, False)]


@pytest.mark.parametrize(
    ("logs", "durable"),
    [
        (([open_one(1, 5)], [open_one(1, 3)], [open_one(1, 2)]), 3),
        (([open_one(1, 5)], [open_one(1, 5)], []), 5),
        (([open_one(1, 5)], [open_one(1, 3)]), 3),
        (([open_one(1, 5)], [], []), None),
        (([open_one(1, 5, committed=4)], [], []), 4),
        (([open_one(1, 5, committed=9)], [open_one(1, 2)], []), 5),
        (([open_one(1, 5, by=1)], [open_one(1, 3, by=2)], [open_one(1, 3, by=2)]), 3),
        (([open_one(1, 5, by=1)], [open_one(1, 3, by=2)], []), None),
        (([open_one(1, 5, accepted=2)], [open_one(1, 5)], []), None),
        (([open_one(1, 5, accepted=2)], [open_one(1, 5, accepted=3)], [open_one(1, 5)]), None),
        (([open_one(1, 5, accepted=2)], [open_one(1, 5, accepted=2)], [open_one(1, 9)]), 5),
    ],
)
def test_J6_a_segment_in_progress_ends_where_a_quorum_of_one_writers_copies_does(
    logs: tuple[list[RemoteEditLog], ...], durable: int | None
) -> None:
    """Q14."""
    found = seen(*logs)
    assert ends(found) == ([] if durable is None else [(1, durable, True)])


def test_the_longest_copy_is_read_first_and_other_writers_copies_never() -> None:
    (found,) = seen([open_one(1, 3, by=2)], [open_one(1, 5, by=2)], [open_one(1, 9, by=1)])
    assert readers(found) == [1, 0]


def test_on_demand_everything_of_the_latest_writer_is_shown() -> None:
    assert ends(seen([open_one(1, 5, by=2)], [open_one(1, 9)], only_durable=False)) == [(1, 5, True)]


def test_one_acceptor_is_a_quorum_by_itself() -> None:
    found = segments_seen({0: Manifest([open_one(1, 5)])}, ONE, only_durable=True)
    assert ends(found) == [(1, 5, True)]


copies = st.builds(
    open_one,
    st.just(1),
    st.integers(1, 9),
    by=st.integers(1, 3),
    committed=st.none() | st.just(2),
    accepted=st.integers(0, 2),
)


def of_one_vote(logs: list[RemoteEditLog]) -> list[list[RemoteEditLog]]:
    """Copies that one writer wrote, and that no recovery, or one and the same, accepted."""
    votes = {(log.writer_epoch, log.accepted_in_epoch) for log in logs}
    return [[log for log in logs if (log.writer_epoch, log.accepted_in_epoch) == vote] for vote in votes]


@given(st.lists(copies, min_size=1, max_size=3))
def test_J6_no_more_is_durable_than_a_quorum_of_one_writers_copies_has_or_its_writer_told(
    logs: list[RemoteEditLog],
) -> None:
    def durable(vote: list[RemoteEditLog], txid: int) -> bool:
        has_it = sum(log.end_txid >= txid for log in vote)
        return has_it >= 2 or (has_it == 1 and any((log.committed_txid or 0) >= txid for log in vote))

    for segment in seen(*([log] for log in logs)):
        assert any(durable(vote, segment.last_txid) for vote in of_one_vote(logs))
        assert len({logs[copy.acceptor].writer_epoch for copy in segment.copies}) == 1


# --- gaps ---------------------------------------------------------------------------------------------------------


def looked(*looks: dict[int, Manifest]) -> list[SegmentSeen]:
    """What a reader of acceptors a, b, c is given, which get these answers; all of them must be asked for."""
    steps = readable_segments(
        Acceptors(("a", "b", "c")), GetEditLogManifest(0), seconds_max=1.0, only_durable=True
    )
    ask = next(steps)
    try:
        for number, look in enumerate(looks):
            assert isinstance(ask, CallAcceptors)
            assert (ask.need, ask.every_answer) == (Need.MAJORITY, number > 0)
            ask = steps.send(Answers(look))
    except StopIteration as end:
        assert number == len(looks) - 1
        found: list[SegmentSeen] = end.value
        return found
    raise AssertionError(f"{ask} is one look more")


OLD = Manifest([final(1, 3)])
NEW_WITH_A_HOLE = Manifest([final(1, 3), final(7, 9)])
NEW = Manifest([final(1, 3), final(4, 6), final(7, 9)])


def test_without_a_gap_one_look_is_enough() -> None:
    assert ends(looked({0: OLD, 1: OLD})) == [(1, 3, False)]


def test_manifests_of_different_times_are_asked_for_again() -> None:
    """The first answer is from before 4-6 was finalized, the second of an acceptor that lacks it."""
    found = looked({0: OLD, 1: NEW_WITH_A_HOLE}, {0: NEW, 1: NEW_WITH_A_HOLE})
    assert ends(found) == [(1, 3, False), (4, 6, False), (7, 9, False)]
    check_no_gap(found)


def test_a_gap_that_is_there_after_three_looks_is_an_error_that_says_where_to_read_on() -> None:
    hole = {0: OLD, 1: NEW_WITH_A_HOLE}
    found = looked(hole, hole, hole)
    assert ends(found) == [(1, 3, False), (7, 9, False)]
    with pytest.raises(EditsMissing, match=r"txids 4 to 6 are missing: .*read from txid 7 on"):
        check_no_gap(found)


@pytest.mark.parametrize("purged_below", [7, 9])
def test_what_is_before_a_gap_that_a_purge_has_made_is_left_out(purged_below: int) -> None:
    """One acceptor has purged 1-6; the other was away for 4-6, and has not purged yet."""
    purged = Manifest([final(7, 9)], purged_below=purged_below)
    found = looked({0: purged, 1: NEW_WITH_A_HOLE})
    assert ends(found) == [(7, 9, False)]


def test_a_purge_explains_no_gap_behind_it() -> None:
    purged = Manifest([final(1, 3), final(7, 9)], purged_below=3)
    with pytest.raises(EditsMissing, match="txids 4 to 6"):
        check_no_gap(looked(*[{0: purged, 1: OLD}] * 3))


# --- edits straight from the acceptors --------------------------------------------------------------------------


def edits(count: int, by: int = 1, *, is_final: bool = False, accepted: int = 0) -> JournaledEdits:
    return JournaledEdits(count, -63, b"", by if count else 0, is_final, accepted)


@pytest.mark.parametrize(
    ("replies", "durable"),
    [
        ({0: edits(5), 1: edits(3), 2: edits(1)}, 3),
        ({0: edits(5), 1: edits(3)}, 3),
        ({0: edits(5), 1: edits(0)}, None),
        ({0: edits(0), 1: edits(0)}, None),
        ({0: edits(5, by=1), 1: edits(5, by=2)}, None),
        ({0: edits(5), 1: edits(5, accepted=2)}, None),
        ({0: edits(5, accepted=2), 1: edits(5, accepted=2)}, 5),
        ({0: edits(5, by=1), 1: edits(2, by=2), 2: edits(3, by=2)}, 2),
        ({0: edits(4, is_final=True), 1: edits(9, by=2)}, 4),
        ({0: edits(2, is_final=True), 1: edits(4, is_final=True)}, 4),
    ],
)
def test_J6_edits_are_given_to_a_follower_as_far_as_a_quorum_has_them(
    replies: dict[int, JournaledEdits], durable: int | None
) -> None:
    found = durable_edits(replies, THREE)
    assert (found[1] if found is not None else None) == durable


def test_an_acceptor_that_did_not_answer_does_not_count_as_one_that_has_nothing_new() -> None:
    """Q13: one that is behind the reader gives an error; with two others the edits are known to be durable."""
    found = durable_edits({0: edits(5), 2: edits(5)}, THREE)
    assert found is not None
    assert found[1] == 5
    assert durable_edits({0: edits(5)}, THREE) is None


def test_the_edits_given_are_those_of_the_longest_reply() -> None:
    long, short = JournaledEdits(5, -63, b"long", 1), JournaledEdits(3, -63, b"sho", 1)
    assert durable_edits({0: short, 1: long}, THREE) == (long, 3)


@given(
    st.dictionaries(
        st.integers(0, 2), st.tuples(st.integers(0, 9), st.integers(1, 3)), min_size=2, max_size=3
    )
)
def test_never_more_edits_than_a_quorum_of_one_writers_copies_has(stood: dict[int, tuple[int, int]]) -> None:
    found = durable_edits({n: edits(count, by) for n, (count, by) in stood.items()}, THREE)
    if found is None:
        return
    given_edits, count = found
    assert sum(has >= count and by == given_edits.writer_epoch for has, by in stood.values()) >= 2
    assert 0 < count <= given_edits.txn_count
