"""OpenTelemetry: what an append, a read and a recovery did, as spans of client and bookies that belong together."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Sampler

from bookledger.cli.child import Child
from bookledger.cli.processes import bookie_processes
from ledgers import ClientConfig, LedgerFenced, NotEnoughBookies
from ledgers import LedgerClient as BlockingClient
from ledgers.aio import LedgerClient
from metadata.sqlite.sqlite_uri import uri_of
from qjm_compat.aio import QuorumJournalManager
from qjm_compat.requests import NamespaceInfo
from tests.qjm_compat.acceptor.one_writer import edits
from tests.support.aio import run
from tests.support.collector import Collector
from tests.support.command_line import succeeds
from tests.support.in_process import QUICK, InProcessCluster, cluster_of, payloads
from tests.support.journal_node_daemons import journal_nodes, qjournal
from tests.support.waiting import until

Spans = list[ReadableSpan]
SPANS_MAX = 40
"""Of a thousand entries that are appended at once."""


class Traced:
    """A cluster of three bookies and a client that trace, and what they told."""

    def __init__(self, cluster: InProcessCluster, client: LedgerClient, told: InMemorySpanExporter) -> None:
        self.cluster = cluster
        self.client = client
        self._told = told
        self._provider = cluster.tracing

    def spans(self, name: str) -> Spans:
        return [span for span in self._told.get_finished_spans() if span.name == name]

    def under(self, parent: ReadableSpan, name: str) -> Spans:
        """Its children of this name, in its trace."""
        context = parent.get_span_context()
        assert context is not None
        return [
            span
            for span in self.spans(name)
            if span.parent is not None
            and (span.parent.trace_id, span.parent.span_id) == (context.trace_id, context.span_id)
        ]

    async def doing(self, work: Callable[[], Awaitable[object]]) -> ReadableSpan:
        """What the application does, as a span of its own."""
        assert isinstance(self._provider, TracerProvider)
        with self._provider.get_tracer("application").start_as_current_span("application"):
            await work()
        return self.spans("application")[-1]


@asynccontextmanager
async def traced(
    tmp_path: Path, *, sampler: Sampler | None = None, config: ClientConfig = QUICK
) -> AsyncIterator[Traced]:
    told, provider = InMemorySpanExporter(), TracerProvider(sampler=sampler, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(told))
    async with (
        cluster_of(tmp_path, 3, tracing=provider) as cluster,
        LedgerClient(cluster.uri, config=replace(config, tracing=provider)) as client,
    ):
        yield Traced(cluster, client, told)


def about(span: ReadableSpan, *names: str) -> tuple[object, ...]:
    assert span.attributes is not None
    return tuple(span.attributes.get(f"bookledger.{name}") for name in names)


async def test_an_append_leads_over_its_lanes_to_the_syncs_of_its_bookies(tmp_path: Path) -> None:
    async with traced(tmp_path) as seen:
        writer = await seen.client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=3)
        application = await seen.doing(lambda: writer.append_batch([b"one", b"two"]))
        (append,) = seen.under(application, "ledger.append")
        assert about(append, "ledger_id", "first_entry", "last_entry", "payload_bytes") == (
            writer.ledger_id, 0, 1, 6,
        )  # fmt: skip
        lanes = seen.under(append, "ledger.lane")
        assert {about(lane, "bookie") for lane in lanes} == {("b1",), ("b2",), ("b3",)}
        for lane in lanes:
            (stored,) = seen.under(lane, "bookie.append")
            assert about(stored, "entries", "status") == (2, "ok")
            (sync,) = seen.under(stored, "bookie.sync")
            assert stored.start_time is not None and sync.start_time is not None and sync.end_time is not None
            assert stored.start_time <= sync.end_time
            assert sync.start_time <= sync.end_time
        await writer.close()


async def test_a_read_leads_to_the_bookie_that_gave_the_page(tmp_path: Path) -> None:
    async with traced(tmp_path) as seen:
        writer = await seen.client.create_ledger()
        await writer.append_batch([b"one", b"two"])
        await writer.close()
        reader = await seen.client.open_ledger(writer.ledger_id)
        application = await seen.doing(lambda: payloads(reader))
        (page,) = seen.under(application, "ledger.read")
        assert about(page, "first_entry", "last_entry", "entries") == (0, 1, 2)
        asked = seen.under(page, "ledger.ask")
        assert asked
        (read,) = seen.under(asked[0], "bookie.read")
        assert about(read, "ledger_id", "status", "payload_bytes") == (writer.ledger_id, "ok", 6)


async def test_a_recovery_leads_to_fences_reads_and_what_is_written_back(tmp_path: Path) -> None:
    # Idle, it would hear of the fence before it appends.
    async with traced(tmp_path, config=replace(QUICK, idle_lac_seconds=60)) as seen:
        writer = await seen.client.create_ledger()
        await writer.append(b"one")
        application = await seen.doing(lambda: seen.client.open_ledger(writer.ledger_id))
        (recovery,) = seen.under(application, "ledger.recover")
        asked = seen.under(recovery, "ledger.ask")
        assert [fence for one in asked for fence in seen.under(one, "bookie.fence")]
        assert [read for one in asked for read in seen.under(one, "bookie.read")]
        back = seen.under(recovery, "ledger.lane")
        assert [stored for lane in back for stored in seen.under(lane, "bookie.append")]
        with pytest.raises(LedgerFenced):
            await writer.append(b"late")
        assert not seen.spans("ledger.append")[-1].status.is_ok
        assert {about(one, "status") for one in seen.spans("bookie.append")} == {("ok",), ("fenced",)}


async def test_an_append_that_failed_says_so(tmp_path: Path) -> None:
    async with traced(
        tmp_path, config=replace(QUICK, append_seconds_max=1, append_quorum_seconds_max=5)
    ) as seen:
        writer = await seen.client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=3)
        await writer.append(b"one")
        await seen.cluster.stop("b2")
        with pytest.raises(NotEnoughBookies):
            await writer.append(b"two")
        failed = seen.spans("ledger.append")[-1]
        assert not failed.status.is_ok
        assert "b2" in (failed.status.description or "")


def test_the_blocking_client_works_for_the_span_of_its_caller(tmp_path: Path) -> None:
    uri, told = uri_of(tmp_path / "metadata.db"), InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(told))
    with (
        bookie_processes(1, tmp_path, uri),
        BlockingClient(uri, config=ClientConfig(tracing=provider)) as client,
        client.create_ledger(ensemble_size=1) as writer,
    ):
        for text in (b"one", b"two"):
            with provider.get_tracer("application").start_as_current_span("application"):
                writer.append(text)
    spans = told.get_finished_spans()
    parents = [span.parent.span_id for span in spans if span.name == "ledger.append" and span.parent]
    applications = [span.get_span_context() for span in spans if span.name == "application"]
    assert parents == [context.span_id for context in applications if context is not None]
    assert len(parents) == 2


async def test_spans_are_made_for_batches_and_never_for_entries(tmp_path: Path) -> None:
    async with traced(tmp_path) as seen:
        writer = await seen.client.create_ledger()
        for _ in range(1000):
            writer.append_nowait(b"x")
        await writer.flush()
        names = ("ledger.append", "ledger.lane", "bookie.append", "bookie.sync")
        found = [span for name in names for span in seen.spans(name)]
        assert len(found) < SPANS_MAX
        assert sum(int(str(*about(span, "payload_bytes"))) for span in seen.spans("ledger.append")) == 1000


async def test_what_the_sampler_leaves_out_the_bookies_leave_out(tmp_path: Path) -> None:
    async with traced(tmp_path, sampler=ALWAYS_OFF) as seen:
        writer = await seen.client.create_ledger()
        await writer.append(b"x")
        await writer.close()
        assert await payloads(await seen.client.open_ledger(writer.ledger_id)) == [b"x"]
        assert not [name for name in ("ledger.append", "bookie.append", "bookie.read") if seen.spans(name)]


def test_who_does_not_trace_imports_nothing_of_it(tmp_path: Path) -> None:
    program = """
import sys
from bookledger import LedgerClient
with LedgerClient(sys.argv[1]) as client:
    with client.create_ledger(ensemble_size=1) as writer:
        writer.append(b"x")
    assert len(list(client.open_ledger(writer.ledger_id).read())) == 1
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""
    uri = uri_of(tmp_path / "metadata.db")
    with bookie_processes(1, tmp_path, uri):
        subprocess.run([sys.executable, "-c", program, uri], check=True, timeout=60)


def test_bookies_in_processes_of_their_own_tell_a_collector(tmp_path: Path) -> None:
    uri = uri_of(tmp_path / "metadata.db")
    with Collector() as collector:
        provider = collector.provider("application")
        with bookie_processes(
            2,
            tmp_path,
            uri,
            options=[f"--traces={collector.url}"],
            environment={"NO_PROXY": "127.0.0.1", "OTEL_BSP_SCHEDULE_DELAY": "100"},
        ):
            run(_write(uri, provider), 60)
            provider.shutdown()
            until(lambda: len(collector.of("bookie.sync")) == 2)
        lanes = {span.span_id: span for span in collector.of("ledger.lane")}
        stored = {span.span_id: span for span in collector.of("bookie.append")}
        assert {span.parent_span_id for span in stored.values()} == lanes.keys()
        assert {span.parent_span_id for span in collector.of("bookie.sync")} == stored.keys()
        assert len({span.trace_id for span in (*lanes.values(), *stored.values())}) == 1
        assert collector.services() == {
            ("application", ""), ("bookledger-bookie", "bookie-1"), ("bookledger-bookie", "bookie-2"),
        }  # fmt: skip


def test_the_bookies_of_one_machine_and_a_journal_node_tell_a_collector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    with Collector() as collector:
        traces = f"--traces={collector.url}"
        command = ["-m", "bookledger", "standalone", "--json", "--port=0", "--bookies=1"]
        with Child([*command, f"--data={tmp_path}/data", traces]) as standalone:
            uri = standalone.hear()["metadata"]
            with journal_nodes(uri, tmp_path, 1, "--ensemble=1", traces) as (node,):
                run(_journal(node.address), 60)
                until(lambda: bool(collector.of("bookie.append")))
            assert standalone.stop() == 0
        lanes = {span.span_id for span in collector.of("ledger.lane")}
        assert {span.parent_span_id for span in collector.of("bookie.append")} <= lanes
        assert collector.services() == {
            ("bookledger-journal", "jn1"), ("bookledger-standalone", str(tmp_path / "data")),
        }  # fmt: skip


async def _journal(address: str) -> None:
    async with QuorumJournalManager(qjournal([address])) as manager:
        await manager.format(NamespaceInfo(7, "CID-x", layout_version=-63))
        await manager.recover_unfinalized_segments()
        out = await manager.start_log_segment(1)
        out.write_raw(edits(1, 1, 1), 1)
        out.set_ready_to_flush()
        await out.flush()
        await out.close()
        await manager.finalize_log_segment(1, 1)


@pytest.mark.long
def test_what_a_bookie_copies_by_itself_it_tells_too(tmp_path: Path) -> None:
    uri = uri_of(tmp_path / "metadata.db")
    with (
        Collector() as collector,
        bookie_processes(
            3,
            tmp_path,
            uri,
            lease_seconds=1,
            options=[f"--traces={collector.url}", "--lost-after=1"],
            environment={"NO_PROXY": "127.0.0.1", "OTEL_BSP_SCHEDULE_DELAY": "100"},
        ) as bookies,
    ):
        with BlockingClient(uri) as client, client.create_ledger(ensemble_size=2) as writer:
            writer.append(b"x")
            lost = client.open_ledger(writer.ledger_id, recovery=False).record.fragments[0].ensemble[0]
        next(one for one in bookies if one.bookie_id == lost.bookie_id).kill()
        until(lambda: bool(collector.of("ledger.ask")))
        (page, *_) = collector.of("ledger.read")
        assert page.span_id in {asked.parent_span_id for asked in collector.of("ledger.ask")}


async def _write(uri: str, provider: TracerProvider) -> None:
    async with LedgerClient(uri, config=replace(QUICK, tracing=provider)) as client:
        writer = await client.create_ledger(ensemble_size=2, write_quorum=2, ack_quorum=2)
        await writer.append(b"x")
        await writer.close()


def test_a_collector_that_is_away_is_in_nobodys_way(tmp_path: Path) -> None:
    uri = uri_of(tmp_path / "metadata.db")
    with Collector() as gone:
        url = gone.url
    with bookie_processes(1, tmp_path, uri, options=[f"--traces={url}"]) as (bookie,):
        succeeds("ledger", "append", f"--metadata={uri}", "--ensemble=1", stdin=b"x\n")
        assert bookie.child.stop() == 0


def test_where_the_extra_is_missing_it_is_named(tmp_path: Path) -> None:
    without = "import sys; sys.modules['opentelemetry'] = None; from bookledger.cli.main import main; main()"
    command = ["bookie", "run", f"--metadata={uri_of(tmp_path / 'm.db')}", f"--data={tmp_path}"]
    done = subprocess.run(
        [sys.executable, "-c", without, *command, "--traces=http://127.0.0.1:4318/v1/traces"],
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert b"pip install 'bookledger[otel]'" in done.stderr
