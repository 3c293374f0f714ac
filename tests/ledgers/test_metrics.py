"""What a client tells in a registry of the application's."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from bookie.wire.columnar_entries import of_payloads
from ledgers import ClientConfig, LedgerFenced, ProducerForgotten
from ledgers.aio import LedgerClient
from ledgers.observing.append_metrics import AppendMetrics, WriterMetrics
from ledgers.observing.client_metric_declarations import SECONDS
from tests.support.aio import until_true
from tests.support.in_process import cluster_of, on_bookies


def value(registry: CollectorRegistry, name: str, **labels: str) -> float:
    found = registry.get_sample_value(f"bookledger_client_{name}", labels)
    return 0.0 if found is None else found


async def test_what_is_appended_and_read_is_counted_by_the_batch(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    async with on_bookies(tmp_path, 3, ClientConfig(metrics=registry)) as (_, client):
        writer = await client.create_ledger()
        assert value(registry, "lanes_open") == 3
        assert value(registry, "writers_open") == 1
        first = await writer.append_batch([b"abc"] * 100)
        assert first is not None
        assert value(registry, "append_entries_total") == 100
        assert value(registry, "append_bytes_total") == 300
        assert value(registry, "append_seconds_count") == 1, "one batch"
        assert value(registry, "pending_entries") == value(registry, "pending_bytes") == 0
        await writer.close()
        assert value(registry, "lanes_open") == value(registry, "writers_open") == 0
        assert value(registry, "pending_limit_bytes") == 0
        reader = await client.open_ledger(writer.ledger_id)
        assert len([entry async for entry in reader.read()]) == 100
        assert value(registry, "read_entries_total") == 100
        assert value(registry, "read_bytes_total") == 300
        assert value(registry, "read_seconds_count") >= 1
        assert value(registry, "reads_in_flight") == 0
        assert value(registry, "metadata_calls_total", call="create", outcome="done") >= 1
        assert value(registry, "metadata_call_seconds_total", call="create") > 0


async def test_a_lost_bookie_a_recovery_and_what_fails_then_are_counted(tmp_path: Path) -> None:
    mine, theirs = CollectorRegistry(), CollectorRegistry()
    async with (
        cluster_of(tmp_path, 4) as cluster,
        # An idle writer that tells its last-add-confirmed hears of the fence before its next append.
        LedgerClient(cluster.uri, config=ClientConfig(metrics=mine, idle_lac_seconds=600)) as writing,
        LedgerClient(cluster.uri, config=ClientConfig(metrics=theirs)) as recovering,
    ):
        writer = await writing.create_ledger()
        await writer.append(b"x")
        await cluster.stop(writer.record.fragments[-1].ensemble[0].bookie_id)
        await writer.append(b"y")
        await until_true(lambda: value(mine, "ensemble_changes_total") == 1)
        assert value(mine, "bookie_failures_total") >= 1
        await recovering.open_ledger(writer.ledger_id)
        assert value(theirs, "recoveries_total", outcome="done") == 1
        with pytest.raises(LedgerFenced):
            await writer.append(b"z")
        assert value(mine, "append_failed_entries_total", error="LedgerFenced") == 1
        assert value(mine, "pending_entries") == 0


async def test_what_a_logs_writer_reader_and_consumer_do_is_counted(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    async with on_bookies(tmp_path, 3, ClientConfig(metrics=registry)) as (_, client):
        log = await client.create_log("orders")
        async with await log.writer() as writer:
            await writer.append_batch([b"x"] * 5)
        assert value(registry, "log_take_overs_total", outcome="done") == 1
        assert value(registry, "log_append_records_total") == 5
        assert len([record async for record in log.read()]) == 5
        assert value(registry, "log_read_records_total") == 5
        of = {"log": "orders", "cursor": "billing"}
        async for record in log.consume("billing", timeout=0.1):
            assert value(registry, "consumer_position", **of) == 0
            assert value(registry, "consumer_lag_seconds", **of) > 0
            assert record.position < 5
        assert value(registry, "cursor_commits_total") == 1
        assert registry.get_sample_value("bookledger_client_consumer_position", of) is None, "it has stopped"


async def test_what_becomes_of_the_records_of_producers_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledgers.logs.producers.producer_memory.PRODUCERS_MAX", 1)
    registry = CollectorRegistry()
    async with on_bookies(tmp_path, 3, ClientConfig(metrics=registry)) as (_, client):
        log = await client.create_log("orders")
        async with await log.writer() as writer:
            await writer.append_batch([b"x"] * 3, producer="till-1", sequence=0)
            await writer.append_batch([b"x"] * 5, producer="till-1", sequence=0)
            await writer.append(b"bare")
            assert value(registry, "log_producer_records_total", outcome="stored") == 5
            assert value(registry, "log_producer_records_total", outcome="repeated") == 3
            assert value(registry, "log_forgotten_producers_total") == 0
            await writer.append(b"x", producer="till-2", sequence=0)
            assert value(registry, "log_forgotten_producers_total") == 1
            with pytest.raises(ProducerForgotten):
                await writer.append(b"x", producer="till-1", sequence=9)
            assert value(registry, "log_producer_records_total", outcome="stored") == 6


def test_the_buckets_show_half_a_millisecond_to_half_a_second() -> None:
    assert SECONDS[0] == 0.0005
    assert len([bound for bound in SECONDS if bound <= 0.5]) >= 12


def test_writers_that_are_open_and_those_that_have_ended_add_up() -> None:
    registry = CollectorRegistry()
    metrics = AppendMetrics(registry)
    first, second = WriterMetrics(metrics, 1000), WriterMetrics(metrics, 500)
    for writer, entries in ((first, 3), (second, 2)):
        writer.taken(of_payloads(0, [b"ab"] * entries, bytes(entries)))
        writer.taken(of_payloads(entries, [b"abc"], b"\0"))
    assert (value(registry, "writers_open"), value(registry, "pending_limit_bytes")) == (2, 1500)
    assert (value(registry, "pending_entries"), value(registry, "pending_bytes")) == (7, 16)
    first.answered(2)
    second.answered(2)
    assert value(registry, "append_entries_total") == 6
    assert value(registry, "append_bytes_total") == 13
    assert value(registry, "append_seconds_count") == 3
    assert (value(registry, "pending_entries"), value(registry, "pending_bytes")) == (1, 3)
    first.ended(LedgerFenced(1, "another"))
    assert value(registry, "append_failed_entries_total", error="LedgerFenced") == 1
    assert (value(registry, "writers_open"), value(registry, "pending_limit_bytes")) == (1, 500)
    assert (value(registry, "pending_entries"), value(registry, "append_entries_total")) == (0, 6)
