"""Ledgers that are deleted before a stream has read them: none is left out silently."""

from __future__ import annotations

import pytest
from pyspark.sql.streaming.datasource import ReadMaxBytes

from ledgers import LedgerError
from spark.planning.options import LedgerOptions
from spark.planning.selection import BadSelection
from spark.stream import losses, offsets
from tests.spark.stream.streamed import Records, Stream

CUSTOM = {"custom.kind": "a"}


@pytest.fixture
def records() -> Records:
    return Records()


def stopped(records: Records, **options: str) -> Stream:
    """A stream that has read ledgers 1 and 2, and was stopped."""
    records.make(1, 2, kind="a")
    stream = records.stream(**options)
    assert stream.batch() == [1, 2]
    return stream


@pytest.mark.parametrize("options", [{}, {"ledgers": "1-9"}, {"ledgers": "1,2,4,5,6"}])
def test_a_ledger_deleted_while_the_stream_was_stopped_ends_it_and_is_named(
    records: Records, options: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    stream = stopped(records, **options)
    records.make(4, 5, 6)
    records.delete(5)
    for _ in range(2):
        stream.restart()
        with pytest.raises(LedgerError, match=r"ledger 5 was deleted before .* option failOnDataLoss=false"):
            stream.batch()
    stream.restart(failOnDataLoss="false")
    assert stream.batch() == [4, 6]
    assert "ledger 5 was deleted before the stream had read it" in caplog.text
    stream.restart()
    assert stream.batch() == []


def test_a_ledger_deleted_between_two_looks_ends_the_stream(records: Records) -> None:
    records.make(1, open_now=True)
    stream = records.stream()
    assert stream.batch() == []
    records.delete(1)
    with pytest.raises(LedgerError, match="ledger 1 was deleted before"):
        stream.batch()


def test_a_loss_that_was_told_is_not_told_again_where_nothing_else_came(records: Records) -> None:
    stream = stopped(records)
    records.make(3)
    records.delete(3)
    stream.restart(failOnDataLoss="false")
    assert stream.batch() == []
    stream.restart()
    assert stream.batch() == []


def test_what_was_deleted_before_the_stream_began_or_after_it_was_read_is_no_loss(records: Records) -> None:
    records.make(1, 3, 4, 5)
    records.delete(4)
    records.make(2, open_now=True)
    stream = records.stream()
    assert stream.batch(ReadMaxBytes(2000)) == [1, 3]
    records.delete(1)
    records.delete(3)
    stream.restart()
    assert stream.batch() == [5]
    records.close(2)
    assert stream.batch() == [2]


def test_what_is_outside_the_ids_that_are_chosen_may_be_deleted(records: Records) -> None:
    stream = stopped(records, ledgers="1-2,5-9")
    records.make(3, 4, 5)
    records.delete(4)
    stream.restart()
    assert stream.batch() == [5]


def test_a_ledger_of_a_batch_that_is_repeated_is_left_out_and_named(
    records: Records, caplog: pytest.LogCaptureFixture
) -> None:
    records.make(1, 2)
    stream = records.stream()
    end = stream.reader.latestOffset(stream.offset, ReadMaxBytes(9000))
    records.delete(1)
    with pytest.raises(LedgerError, match=r"ledger 1 was deleted before .*failOnDataLoss"):
        stream.reader.partitions(stream.offset, end)
    stream.restart(failOnDataLoss="false")
    (task,) = stream.reader.partitions(stream.offset, end)
    assert [one.ledger_id for one in task.ranges] == [2]
    assert "ledger 1 was deleted before the stream had read it" in caplog.text


def test_by_custom_metadata_what_the_checkpoint_says_is_to_come_is_a_loss(records: Records) -> None:
    records.make(1, kind="a")
    records.make(2, kind="a", open_now=True)
    records.make(3, kind="b")
    stream = records.stream(**CUSTOM)
    assert stream.batch() == [1]
    records.delete(2)
    stream.restart()
    with pytest.raises(LedgerError, match="ledger 2 was deleted before the stream had read it"):
        stream.batch()


def test_by_custom_metadata_a_running_stream_knows_what_it_has_seen(
    records: Records, caplog: pytest.LogCaptureFixture
) -> None:
    stream = stopped(records, **CUSTOM)
    records.make(3, 4, kind="a", open_now=True)
    records.make(5, kind="b")
    assert stream.batch() == []
    records.delete(5)
    assert stream.batch() == [] and not caplog.messages
    records.delete(4)
    with pytest.raises(LedgerError, match="ledger 4 was deleted before"):
        stream.batch()


def test_by_custom_metadata_a_ledger_that_was_never_seen_is_told_and_the_stream_goes_on(
    records: Records, caplog: pytest.LogCaptureFixture
) -> None:
    stream = stopped(records, **CUSTOM)
    records.make(4, 5, 6, kind="a")
    records.delete(5)
    stream.restart()
    assert stream.batch() == [4, 6]
    (told,) = caplog.messages
    assert "ledger 5 was deleted, and it is unknown whether the stream should have read it" in told
    assert stream.batch() == [] and len(caplog.messages) == 1


def test_a_checkpoint_says_of_so_many_ledgers_at_most_that_they_are_to_come(
    records: Records, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(offsets, "UNREAD_MAX", 2)
    records.make(*range(1, 6), kind="a")
    stream = records.stream(**CUSTOM)
    assert stream.batch(ReadMaxBytes(1000)) == [1] and stream.offset["unread"] == "2-3"
    records.delete(5)
    stream.restart()
    assert stream.batch() == [2, 3, 4] and "ledger 5 was deleted, and it is unknown" in caplog.text


def test_a_checkpoint_of_an_earlier_version_goes_on_from_what_it_finds(records: Records) -> None:
    stream = stopped(records)
    del stream.offset["revision"], stream.offset["unread"]
    records.make(3, 4, 5)
    records.delete(4)
    stream.restart()
    assert stream.batch(ReadMaxBytes(1)) == [3]
    records.delete(5)
    with pytest.raises(LedgerError, match="ledger 5 was deleted before"):
        stream.batch()


def test_older_metadata_than_a_stream_has_seen_ends_it(
    records: Records, caplog: pytest.LogCaptureFixture
) -> None:
    """A deletion after the store went back has a revision that the stream takes for an earlier one."""
    stream = stopped(records)
    stream.offset["revision"] += 1000
    records.make(3)
    stream.restart()
    with pytest.raises(LedgerError, match=r"it was rolled back to an older copy.*failOnDataLoss=false"):
        stream.batch()
    stream.restart(failOnDataLoss="false")
    assert stream.batch() == [3] and "it was rolled back to an older copy" in caplog.text
    stream.restart()
    assert stream.batch() == []


def test_of_very_many_ids_a_message_has_the_first_and_their_number() -> None:
    told = losses.describe_lost(range(1, 20_000, 2))
    assert told.startswith("ledgers 1,3,5,") and "(10000 in all)" in told
    assert len(told) < losses.IDS_CHARS_MAX + 100


def test_a_batch_read_has_no_such_option() -> None:
    options = LedgerOptions.of({"metadata": "memory://x", "failOnDataLoss": "true"})
    with pytest.raises(BadSelection, match="failOnDataLoss only applies to readStream"):
        options.for_batch()


def test_a_named_ledger_of_which_no_tombstone_is_left_ends_the_stream_or_is_left_out(
    records: Records, caplog: pytest.LogCaptureFixture
) -> None:
    records.make(1, 2, 4, 5, 6)
    records.delete(5)
    records.retire(5)
    stream = records.stream(ledgers="1,2,4,5,6")
    with pytest.raises(LedgerError, match=r"ledger 5 was deleted before .* option failOnDataLoss=false"):
        stream.batch()
    stream.restart(failOnDataLoss="false")
    assert 5 not in stream.batch()
    assert "ledger 5 was deleted before the stream had read it" in caplog.text
    stream.restart()
    assert stream.batch() == []


def test_a_ledger_that_the_stream_has_seen_is_lost_though_it_was_retired_before_the_next_look(
    records: Records,
) -> None:
    records.make(1, open_now=True)
    stream = records.stream()
    assert stream.batch() == []
    records.delete(1)
    records.retire(1)
    with pytest.raises(LedgerError, match="ledger 1 was deleted before"):
        stream.batch()


def test_a_stream_that_was_stopped_for_too_long_says_of_which_ids_nothing_is_known(
    records: Records, caplog: pytest.LogCaptureFixture
) -> None:
    stream = stopped(records)
    records.make(3, 4, 5, 6)
    records.delete(4)
    records.delete(5)
    records.retire(4, 5)
    stream.restart()
    assert stream.batch() == [3, 6]
    assert "ids 4-5: it is unknown whether there were ledgers that were deleted" in caplog.text
    caplog.clear()
    assert stream.batch() == []
    assert not caplog.records, "once, at its start"


def test_a_stream_that_begins_says_nothing_of_what_was_retired_before(
    records: Records, caplog: pytest.LogCaptureFixture
) -> None:
    records.make(1, 2, 3)
    records.delete(2)
    records.retire(2)
    assert records.stream().batch() == [1, 3]
    assert not caplog.records


def test_without_a_choice_what_logs_give_up_is_no_loss(records: Records) -> None:
    """Not even while the stream was stopped: a tombstone says that the ledger was of a log."""
    records.make(1)
    stream = records.stream()
    assert stream.batch() == [1]
    records.make(2, of_log=True)
    records.make(3)
    records.delete(2)
    stream.restart()
    assert stream.batch() == [3]
    chosen = records.stream(ledgers="1-3")
    records.make(4, of_log=True)
    assert chosen.batch() == [1, 3]
