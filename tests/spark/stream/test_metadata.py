"""A metadata store that is away for a while: a stream waits, says so once, and goes on; for a time that has a bound."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from ledgers import MetadataUnavailable
from metadata import open_store
from metadata.backup import hold
from metadata.errors import BadMetadataUri, StoreRefused
from metadata.records.cluster import cluster_id
from metadata.records.ledger_store import LedgerStore
from spark.executor_access import ExecutorAccess
from spark.planning.ledger_records import records_of
from spark.planning.options import LedgerOptions
from spark.planning.selection import LOOKED_UP_MAX
from spark.stream import metadata_stream as stream_metadata
from spark.stream.ledgers import ClosedLedgersStream
from spark.stream.metadata_stream import StreamMetadata
from tests.spark.made import closed
from tests.spark.stream.streamed import SCHEMA
from tests.support.aio import run


class File:
    """A metadata store in a file that can be taken away."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / "m.db"
        self.uri = f"sqlite://{self._path}"
        run(self.make(1))

    async def make(self, *ledger_ids: int) -> None:
        store = await open_store(self.uri, create=True)
        for ledger_id in ledger_ids:
            await LedgerStore(store).create(closed(ledger_id, 10, 1000))
        await store.close()

    def take_away(self) -> None:
        self._path.rename(self._path.with_suffix(".away"))

    def bring_back(self) -> None:
        self._path.with_suffix(".away").rename(self._path)


@pytest.fixture
def file(tmp_path: Path) -> File:
    return File(tmp_path)


def stream_over(file: File) -> ClosedLedgersStream:
    return ClosedLedgersStream(LedgerOptions.of({"metadata": file.uri}), SCHEMA)


def test_a_stream_has_nothing_new_while_its_metadata_is_away_and_goes_on_afterwards(
    file: File, caplog: pytest.LogCaptureFixture
) -> None:
    stream = stream_over(file)
    first = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    run(file.make(2))
    file.take_away()
    with caplog.at_level(logging.WARNING):
        assert [stream.latestOffset(first, ReadAllAvailable()) for _ in range(3)] == [first] * 3
    (warning,) = caplog.messages
    assert "waits up to 600 s for its metadata store" in warning
    file.bring_back()
    second = stream.latestOffset(first, ReadAllAvailable())
    (task,) = stream.partitions(first, second)
    assert [one.ledger_id for one in task.ranges] == [2]


def test_each_time_the_metadata_is_away_is_told(file: File, caplog: pytest.LogCaptureFixture) -> None:
    stream = stream_over(file)
    offset = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    for _ in range(2):
        file.take_away()
        assert stream.latestOffset(offset, ReadAllAvailable()) == offset
        file.bring_back()
        assert stream.latestOffset(offset, ReadAllAvailable()) == offset
    assert len(caplog.messages) == 2


def test_a_store_that_stays_away_ends_the_stream_with_what_to_do(
    file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_over(file)
    offset = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    file.take_away()
    monkeypatch.setattr(stream_metadata, "AWAY_SECONDS_MAX", 0.0)
    with pytest.raises(
        MetadataUnavailable, match="start the stream again with the same checkpoint after that"
    ):
        stream.latestOffset(offset, ReadAllAvailable())


def test_a_batch_that_is_planned_asks_again_and_then_gives_up(
    file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_over(file)
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())
    file.take_away()
    asked = 0

    async def and_comes_back(uri: str, ledger_ids: list[int]) -> object:
        nonlocal asked
        asked += 1
        if asked == 3:
            file.bring_back()
        return await records_of(uri, ledger_ids)

    monkeypatch.setattr("spark.stream.metadata_stream.records_of", and_comes_back)
    assert len(stream.partitions(start, end)) == 1 and asked == 3
    file.take_away()
    monkeypatch.setattr(stream_metadata, "RETRY_SECONDS_MAX", 0.2)
    with pytest.raises(MetadataUnavailable, match="has been unavailable for"):
        stream.partitions(start, end)


def test_a_stream_that_ends_does_not_pretend_that_there_is_nothing(
    file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = stream_over(file)
    offset = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    stream.prepareForTriggerAvailableNow()
    file.take_away()
    monkeypatch.setattr(stream_metadata, "RETRY_SECONDS_MAX", 0.2)
    with pytest.raises(MetadataUnavailable):
        stream.latestOffset(offset, ReadAllAvailable())


def test_a_mistyped_path_is_refused_at_once(file: File) -> None:
    stream = ClosedLedgersStream(LedgerOptions.of({"metadata": f"{file.uri}x"}), SCHEMA)
    with pytest.raises(BadMetadataUri, match="there is no such file"):
        stream.latestOffset(stream.initialOffset(), ReadAllAvailable())


def test_a_store_that_says_no_is_not_asked_again() -> None:
    asked = []

    async def refused(uri: str) -> None:
        asked.append(uri)
        raise StoreRefused("permission denied")

    with pytest.raises(StoreRefused):
        StreamMetadata(ExecutorAccess("memory://refusing")).ask(refused)
    assert len(asked) == 1


@pytest.mark.parametrize("many", [5, 3 * LOOKED_UP_MAX])
def test_records_are_found_whether_they_are_few_or_many(file: File, many: int) -> None:
    run(file.make(*range(2, many + 5)))
    wanted = [*range(2, many), 10_000]
    assert sorted(run(records_of(file.uri, wanted))) == wanted[:-1]
    assert run(records_of(file.uri, [])) == {}


def test_of_a_ledger_that_older_metadata_does_not_know_nobody_says_that_it_is_gone(file: File) -> None:
    async def went_back() -> None:
        store = await open_store(file.uri)
        await cluster_id(store, create=True)
        await hold.begin(store, backup_ms=0, now_ms=1)
        await store.close()

    assert sorted(run(records_of(file.uri, [1, 2]))) == [1]
    run(went_back())
    with pytest.raises(
        MetadataUnavailable, match=r"it is unknown whether ledger 2 exists: .* metadata check"
    ):
        run(records_of(file.uri, [1, 2]))
    assert sorted(run(records_of(file.uri, [1]))) == [1]
