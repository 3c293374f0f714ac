"""What acceptors and writers tell of themselves, under Hadoop's names."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from qjm_compat.prometheus import JournalMetrics
from qjm_compat.quantiles import NEW_MAX, SLICES, Latencies
from tests.qjm_compat.journals import manager_on, on_journal, write, write_segment

PERCENTILES = [f"{n}thPercentileLatencyMicros" for n in (50, 75, 90, 95, 99)]
WINDOWS = ("60s", "300s", "3600s")

JOURNAL_BEAN = {
    "NumEditLogsSynced",
    "BatchesWritten",
    "TxnsWritten",
    "BytesWritten",
    "BatchesWrittenWhileLagging",
    "LastWriterEpoch",
    "LastPromisedEpoch",
    "LastWrittenTxId",
    "LastJournalTimestamp",
    "CurrentLagTxns",
    "TxnsServedViaRpc",
    "BytesServedViaRpc",
    "RpcRequestCacheMissAmountNumMisses",
    "RpcRequestCacheMissAmountAvgTxns",
    "RpcEmptyResponses",
    *(f"Syncs{window}{name}" for window in WINDOWS for name in ("NumOps", *PERCENTILES)),
}

LOGGER_BEAN = {
    "IsOutOfSync",
    "CurrentLagTxns",
    "LagTimeMillis",
    "QueuedEditsSize",
    "QueuedCalls",
    *(
        f"{what}{window}{name}"
        for what in ("WritesE2E", "WritesRpc")
        for window in WINDOWS
        for name in ("NumOps", *PERCENTILES)
    ),
}


def test_a_percentile_is_right_to_a_tenth_whatever_was_measured() -> None:
    rng = random.Random(1)
    latencies = Latencies()
    measured = sorted(rng.lognormvariate(-6, 1.5) for _ in range(5000))
    for seconds in rng.sample(measured, len(measured)):
        latencies.add(seconds, now=100.0)
    assert latencies.count(60, 100.0) == 5000
    for percentile in (50, 75, 90, 95, 99):
        exact = measured[5000 * percentile // 100 - 1] * 1e6
        assert latencies.percentile_micros(60, percentile, 100.0) == pytest.approx(exact, rel=0.1)


def test_a_window_forgets_what_is_older_and_keeps_its_memory_bounded() -> None:
    latencies = Latencies()
    assert latencies.percentile_micros(60, 99, 0.0) == 0
    for second in range(600):
        latencies.add(0.001, now=float(second))
    assert 54 <= latencies.count(60, 599.0) <= 66
    assert latencies.count(60, 599.0 + 60 + 60 / SLICES) == 0
    assert len(latencies.windows[60]._slices) <= SLICES + 1


def test_a_latency_is_of_the_time_when_it_came_however_late_somebody_asks() -> None:
    latencies = Latencies()
    latencies.add(0.001, now=100.0)
    assert latencies.count(60, 100.0) == 1
    latencies.add(0.001, now=100.5)
    latencies.add(0.001, now=101.0)
    assert (latencies.count(60, 1000.0), latencies.count(3600, 1000.0)) == (0, 3)


def test_latencies_that_wait_to_be_counted_are_few() -> None:
    latencies = Latencies()
    for _ in range(10 * NEW_MAX):
        latencies.add(0.001, now=100.0)
        assert len(latencies._new) <= NEW_MAX
    assert latencies.count(60, 100.0) == 10 * NEW_MAX


def test_latencies_below_a_microsecond_are_one() -> None:
    latencies = Latencies()
    latencies.add(0.0, now=0.0)
    assert latencies.percentile_micros(60, 50, 0.0) == 1


async def test_the_names_are_hadoops_and_the_values_move_with_what_is_written(tmp_path: Path) -> None:
    async with on_journal(tmp_path, 1) as (_, manager):
        assert set(manager.metrics()) == {"Journal-ns1", "IPCLoggerChannel-main"}
        before = manager.metrics()["Journal-ns1"]
        assert before.keys() == JOURNAL_BEAN
        assert (before["LastPromisedEpoch"], before["BatchesWritten"]) == (1, 0)
        out = await manager.start_log_segment(1)
        for _ in range(3):
            await write(out, 2)
        journal, logger = (manager.metrics()[name] for name in ("Journal-ns1", "IPCLoggerChannel-main"))
        assert logger.keys() == LOGGER_BEAN
        assert (journal["BatchesWritten"], journal["TxnsWritten"], journal["LastWrittenTxId"]) == (3, 6, 6)
        assert (journal["LastWriterEpoch"], journal["CurrentLagTxns"]) == (1, 0)
        assert int(journal["BytesWritten"]) > 6 * 50
        assert int(journal["LastJournalTimestamp"]) > 1_700_000_000_000
        assert journal["Syncs60sNumOps"] == journal["Syncs3600sNumOps"] == 3
        assert 0 < int(journal["Syncs60s50thPercentileLatencyMicros"]) < 10_000_000
        assert logger["WritesE2E60sNumOps"] == logger["WritesRpc300sNumOps"] == 3
        assert int(logger["WritesE2E60s99thPercentileLatencyMicros"]) >= int(
            logger["WritesRpc60s50thPercentileLatencyMicros"]
        )
        assert (logger["IsOutOfSync"], logger["QueuedEditsSize"], logger["QueuedCalls"]) == ("false", 0, 0)


async def test_what_readers_are_given_is_counted_and_what_they_ask_for_too_late(tmp_path: Path) -> None:
    async with on_journal(tmp_path, 1) as (cluster, manager):
        await write_segment(manager, 1, 4)
        edits = await manager.journaled_edits(2)
        assert edits is not None
        assert await manager.journaled_edits(5) is None
        journal = manager.metrics()["Journal-ns1"]
        assert (journal["TxnsServedViaRpc"], journal["BytesServedViaRpc"]) == (3, len(edits.records))
        assert (journal["RpcEmptyResponses"], journal["RpcRequestCacheMissAmountNumMisses"]) == (1, 0)
        async with manager_on(cluster.uri) as after:
            await after.recover_unfinalized_segments()
            await write_segment(after, 5, 6)
            assert await after.journaled_edits(2) == edits
            journal = after.metrics()["Journal-ns1"]
            assert journal["RpcRequestCacheMissAmountNumMisses"] == 1
            assert journal["RpcRequestCacheMissAmountAvgTxns"] == 3


async def test_with_several_acceptors_each_tells_under_its_own_name(tmp_path: Path) -> None:
    async with on_journal(tmp_path, 3) as (_, manager):
        beans = {f"{bean}-{name}" for bean in ("Journal-ns1", "IPCLoggerChannel") for name in "abc"}
        assert set(manager.metrics()) == beans


async def test_prometheus_reads_all_of_it_under_hadoops_names_in_its_own_spelling(tmp_path: Path) -> None:
    async with on_journal(tmp_path, 1) as (_, manager):
        await write_segment(manager, 1, 4)
        registry = CollectorRegistry()
        registry.register(JournalMetrics(manager.metrics))
        for name, expected in (
            ("journal_txns_written", 4),
            ("journal_current_lag_txns", 0),
            ("journal_last_promised_epoch", 1),
        ):
            assert registry.get_sample_value(f"hadoop_{name}", {"name": "ns1"}) == expected, name
        for name in ("lag_time_millis", "is_out_of_sync", "queued_edits_size"):
            assert registry.get_sample_value(f"hadoop_ipc_logger_channel_{name}", {"name": "main"}) == 0
        syncs = "hadoop_journal_syncs60s99th_percentile_latency_micros"
        assert (registry.get_sample_value(syncs, {"name": "ns1"}) or 0) > 0
        told = {metric.name for metric in registry.collect()}
        assert len(told) == len(JOURNAL_BEAN) + len(LOGGER_BEAN)
