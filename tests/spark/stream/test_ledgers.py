"""Which ledgers a stream delivers, over records in a real metadata store and without Spark."""

from __future__ import annotations

import time
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes

from ledgers import LedgerError
from spark.stream import gaps as stream_gaps
from spark.stream import ledgers as stream_ledgers
from spark.stream import offsets
from spark.stream.offsets import BadOffset
from tests.spark.stream.streamed import Records, now_ms


@pytest.fixture
def records() -> Records:
    return Records()


def test_of_a_range_of_entries_a_stream_gives_only_these(records: Records) -> None:
    records.make(1, 2)
    stream = records.stream(ledgers="1-2:3-5")
    end = stream.reader.latestOffset(stream.offset, ReadAllAvailable())
    (task,) = stream.reader.partitions(stream.offset, end)
    assert [(one.ledger_id, one.first_entry, one.last_entry) for one in task.ranges] == [(1, 3, 5), (2, 3, 5)]


def test_a_rate_limit_counts_the_entries_that_are_chosen(records: Records) -> None:
    records.make(1, 2, 3)
    limit = ReadMaxBytes(650)
    stream = records.stream(ledgers="1-3:3-5")
    assert [stream.batch(limit), stream.batch(limit)] == [[1, 2], [3]]


def test_a_named_ledger_that_was_deleted_once_it_had_been_read_is_no_error(records: Records) -> None:
    records.make(1, 3)
    records.make(2, open_now=True)
    stream = records.stream(ledgers="1,2,3")
    assert stream.batch() == [1, 3]
    records.delete(3)
    stream.restart()
    assert stream.batch() == []
    records.close(2)
    assert stream.batch() == [2]


def test_a_named_ledger_that_is_passed_by_later_ones_ends_the_stream(records: Records) -> None:
    records.make(1, 3)
    stream = records.stream(ledgers="2")
    with pytest.raises(LedgerError, match=r"ledger 2, .* does not exist, although later ones do: omit it"):
        stream.batch()


def test_a_named_ledger_that_does_not_exist_yet_is_waited_for(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    records.make(1)
    stream = records.stream(ledgers="1,3")
    assert stream.batch() == [1] and stream.batch() == []
    records.make(4)
    assert stream.batch() == [], "its id may be taken, and its ledger be made at this moment"
    monkeypatch.setattr(stream_gaps, "GAP_SECONDS", 0)
    with pytest.raises(LedgerError, match=r"ledger 3, .* does not exist"):
        stream.batch()
    monkeypatch.undo()
    records.make(3)
    assert stream.batch() == [3]


@pytest.mark.parametrize(
    "other", [{}, {"ledgers": "1"}, {"custom.kind": "b"}, {"ledgers": "1-9", "custom.kind": "a"}]
)
def test_a_checkpoint_is_refused_where_other_ledgers_are_chosen(
    records: Records, other: dict[str, str]
) -> None:
    records.make(1, kind="a")
    stream = records.stream(**{"custom.kind": "a"})
    assert stream.batch() == [1]
    reader = records.stream(**other).reader
    with pytest.raises(BadOffset, match=r"belongs to a stream of custom.kind=a"):
        reader.latestOffset(stream.offset, ReadAllAvailable())
    with pytest.raises(BadOffset, match=r"belongs to a stream of custom.kind=a"):
        reader.partitions(stream.offset, stream.offset)


def test_an_open_ledger_with_too_many_behind_it_ends_the_stream_and_is_named(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offsets, "OPEN_AHEAD_MAX", 3)
    records.make(7, open_now=True)
    records.make(*range(8, 12))
    stream = records.stream(ledgers="7-99")
    assert stream.batch() == [8, 9, 10]
    with pytest.raises(LedgerError, match=r"ledger 7 is open, and .* `bookledger ledger recover 7`"):
        stream.batch()
    records.close(7)
    stream.restart()
    assert stream.batch() == [7, 11]


def test_a_gap_with_too_many_behind_it_is_waited_for_but_not_by_a_stream_that_ends(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offsets, "OPEN_AHEAD_MAX", 3)
    records.make(*range(8, 12))
    stream = records.stream(ledgers="7-99")
    assert stream.batch() == [8, 9, 10] and stream.batch() == []
    stream.reader.prepareForTriggerAvailableNow()
    with pytest.raises(LedgerError, match="id 7 was taken and may still be used"):
        stream.batch()


def listed_by(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many ids each listing had."""
    sizes: list[int] = []
    really = stream_ledgers.listed

    async def listed(*args: Any, **named: Any) -> stream_ledgers.LedgerListing:
        listing = await really(*args, **named)
        sizes.append(len(listing.known))
        return listing

    monkeypatch.setattr(stream_ledgers, "listed", listed)
    return sizes


def test_what_a_filter_does_not_choose_is_listed_once(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = listed_by(monkeypatch)
    records.make(*range(1, 31))
    stream = records.stream(**{"custom.kind": "rare"})
    begin = stream.offset
    assert [stream.batch(), stream.batch()] == [[], []] and stream.offset == begin
    records.make(31, 32, 33)
    records.make(34, kind="rare")
    assert [stream.batch(), stream.batch()] == [[34], []]
    assert sizes == [30, 0, 4, 0]
    stream.restart()
    assert stream.batch() == []


def test_nothing_above_the_ids_that_are_chosen_is_listed(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = listed_by(monkeypatch)
    records.make(*range(1, 20))
    stream = records.stream(ledgers="3-4,6-7")
    assert stream.batch() == [3, 4, 6, 7]
    assert sizes == [6]


def test_what_is_still_open_is_looked_at_again_and_nothing_before_it(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = listed_by(monkeypatch)
    records.make(*range(1, 20))
    records.make(20, open_now=True, kind="rare")
    records.make(21, 22)
    stream = records.stream(**{"custom.kind": "rare"})
    assert [stream.batch(), stream.batch()] == [[], []]
    records.close(20)
    assert stream.batch() == [20]
    assert sizes == [22, 3, 3]


def test_an_open_ledger_that_nobody_chose_holds_nothing_up(records: Records) -> None:
    records.make(1, open_now=True)
    records.make(2, kind="a")
    stream = records.stream(**{"custom.kind": "a"})
    assert stream.batch() == [2]
    assert stream.offset["below"] == 3


def test_all_that_is_there_now_is_what_the_first_look_finds(records: Records) -> None:
    records.make(1, 2, 3)
    stream = records.stream()
    stream.reader.prepareForTriggerAvailableNow()
    assert stream.batch(ReadMaxBytes(2000)) == [1, 2]
    records.make(4)
    assert [stream.batch(ReadMaxBytes(2000)), stream.batch(ReadMaxBytes(2000))] == [[3], []]
    stream.restart()
    assert stream.batch() == [4]


HIGH = 10**12


def test_an_id_chosen_high_above_the_counted_ones_does_not_hide_those_that_follow(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not even waited for as gaps are: the counter tells which ids are still to come."""
    records.make(*records.count(2), HIGH)
    stream = records.stream()
    assert stream.batch() == [1, 2, HIGH]
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 2 * stream_gaps.GAP_SECONDS)
    assert stream.batch() == []
    late, early = reversed(records.count(2))
    records.make(late)
    assert stream.batch() == [late]
    records.make(early)
    assert stream.batch() == [early]
    assert stream.batch() == []


def test_a_high_id_that_is_open_is_waited_for_and_holds_up_no_counted_one(records: Records) -> None:
    records.make(*records.count(1))
    records.make(HIGH, open_now=True)
    stream = records.stream()
    assert stream.batch() == [1]
    records.make(*records.count(1))
    assert stream.batch() == [2]
    records.close(HIGH)
    assert stream.batch() == [HIGH]


def test_too_many_ids_above_the_counted_ones_end_the_stream_with_a_way_out(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offsets, "OPEN_AHEAD_MAX", 3)
    records.make(*records.count(1), *range(HIGH, HIGH + 4))
    stream = records.stream()
    assert [stream.batch(), stream.batch()] == [[1, HIGH, HIGH + 1], [HIGH + 2]]
    with pytest.raises(LedgerError, match="ids were chosen above the cluster's id counter"):
        stream.batch()
    assert records.stream(ledgers=f"0-{HIGH - 1}").batch() == [1]


def test_the_first_ids_that_are_counted_follow_after_all_that_were_chosen_by_hand(records: Records) -> None:
    long_ago = now_ms() - 3 * 24 * 3600 * 1000
    records.make(1000, 1001, created_ms=long_ago)
    stream = records.stream()
    assert stream.batch() == [1000, 1001]
    records.make(*records.count(2))
    assert stream.batch() == [1, 2]
    stream.restart()
    assert stream.batch() == []
