"""Ids that nobody has used: how long a stream waits for them, whatever the clocks of writers say."""

from __future__ import annotations

from spark.stream.gaps import CLOCK_SKEW_SECONDS_MAX, GAP_SECONDS, LOOKS_MAX, Gaps, KnownId

NOW_MS = 10**12
LONG_AGO_MS = NOW_MS - 1000 * CLOCK_SKEW_SECONDS_MAX - 1


def looked(*looks: tuple[float, list[KnownId]]) -> Gaps:
    gaps = Gaps()
    for seconds, known in looks:
        gaps.look(known, seconds, NOW_MS)
    return gaps


def ids(*ledger_ids: int, created_ms: int = NOW_MS) -> list[KnownId]:
    return [KnownId(ledger_id, created_ms) for ledger_id in ledger_ids]


def test_a_gap_is_waited_for_until_this_process_has_seen_it_for_its_time() -> None:
    known = ids(1, 2, 4)
    assert looked((0, known)).first(known, 1) == 3
    assert looked((0, known), (GAP_SECONDS - 1, known)).first(known, 1) == 3
    assert looked((0, known), (GAP_SECONDS, known)).first(known, 1) is None


def test_a_gap_before_the_first_ledger_is_one_too() -> None:
    assert looked((0, ids(3))).first(ids(3), 1) == 1


def test_each_gap_has_its_own_age() -> None:
    early, late = ids(1, 3), ids(1, 3, 5)
    gaps = looked((0, early), (GAP_SECONDS - 1, late), (GAP_SECONDS, late))
    assert gaps.first(late, 1) == 4 and gaps.passed == 3
    gaps.look(late, 2 * GAP_SECONDS, NOW_MS)
    assert gaps.first(late, 1) is None


def test_a_writer_whose_clock_is_minutes_slow_loses_no_ledger() -> None:
    known = [KnownId(8, NOW_MS - 5000), KnownId(10, NOW_MS - 660_000)]
    assert looked((0, known)).first(known, 8) == 9


def test_a_gap_that_is_older_than_clocks_can_be_wrong_is_not_waited_for_at_a_start() -> None:
    known = ids(1, 4, created_ms=LONG_AGO_MS) + ids(6)
    gaps = looked((0, known))
    assert gaps.passed == 4 and gaps.first(known, 1) == 5


def test_a_deleted_ledger_is_no_gap() -> None:
    known = [KnownId(1, NOW_MS), KnownId(2), KnownId(3, NOW_MS)]
    assert looked((0, known)).first(known, 1) is None
    assert looked((0, [])).first([], 7) is None


def test_looking_often_costs_no_memory_and_gaps_still_end() -> None:
    gaps = Gaps()
    for second in range(3 * GAP_SECONDS):
        gaps.look(ids(10 + second), second, NOW_MS)
        assert len(gaps._tops) <= LOOKS_MAX + 1
    reached = 10 + 3 * GAP_SECONDS - 1
    assert reached - GAP_SECONDS - 2 * GAP_SECONDS / LOOKS_MAX <= gaps.passed <= reached - GAP_SECONDS
