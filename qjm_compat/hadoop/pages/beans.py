"""A JournalNode's metrics: Hadoop's JMX beans for `/jmx`, and Prometheus metrics."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client import Metric
from prometheus_client.registry import Collector

from metadata.counting.declared import MetricTable

from ...prometheus import JournalMetrics
from ..server.calls import Calls
from ..server.connections import RpcServer
from ..server.node import JournalNode

PREFIX = "Hadoop:service=JournalNode,name="

METRICS = MetricTable("journalnode", "A journal node: `journal serve`")

CONNECTIONS = METRICS.gauge("connections", "Connections of NameNodes and others to the RPC port.")
LIMIT = METRICS.gauge("connections_limit", "How many of them there may be.")
REFUSED = METRICS.counter("connections_refused", "Connections that found no place.")
MADE_WAY = METRICS.counter(
    "connections_made_way",
    "Connections that were ended for others: they were silent, or of the address that had most.",
)
CALLS = METRICS.counter("calls", "Calls of NameNodes and others, by method.", "method")
REFUSALS = METRICS.counter(
    "refusals", "Calls that ended with an error, by the class that the caller is told.", "error"
)


class Beans:
    """The JMX beans of one daemon."""

    def __init__(self, node: JournalNode, calls: Calls, server: RpcServer, rpc_port: int) -> None:
        self._node = node
        self._calls = calls
        self._server = server
        self._rpc_port = rpc_port
        self._started_at_ms = time.time_ns() // 1_000_000

    def found(self, query: str) -> list[dict[str, Any]]:
        """The beans that a `qry` names: one by its name, or all for "*" or nothing."""
        beans = list(self._all())
        if query in ("", "*", "*:*", "Hadoop:*"):
            return beans
        return [bean for bean in beans if bean["name"] == query]

    def _all(self) -> Iterator[dict[str, Any]]:
        yield {"name": f"{PREFIX}JournalNodeInfo", **self._info()}
        yield {"name": f"{PREFIX}RpcActivityForPort{self._rpc_port}", **self._activity()}
        for journal_id, journal in journals_of(self._node):
            yield {
                "name": f"{PREFIX}Journal-{journal_id}",
                "tag.Context": "dfs",
                "tag.JournalId": journal_id,
                **journal.metrics.snapshot(),
            }

    def _info(self) -> dict[str, Any]:
        status = {journal_id: {"Formatted": "true"} for journal_id, _ in journals_of(self._node)}
        return {
            "JournalsStatus": json.dumps(status),
            "HostAndPort": self._node.name,
            "JNStartedTimeInMillis": self._started_at_ms,
        }

    def _activity(self) -> dict[str, Any]:
        return {
            "tag.port": str(self._rpc_port),
            "NumOpenConnections": len(self._server.connections),
            "RpcProcessingTimeNumOps": self._calls.counts.total(),
            "RpcFailures": self._calls.failures.total(),
        }


class JournalNodeMetrics(Collector):
    """For Prometheus: what the daemon is called for, `bookledger_journalnode_…`, and each bean, `hadoop_journal_…`."""

    def __init__(self, node: JournalNode, calls: Calls, server: RpcServer) -> None:
        self._node = node
        self._calls = calls
        self._server = server
        self._journals = JournalMetrics(self._beans)

    def describe(self) -> list[Metric]:
        """Returns nothing, so that registration does not query journals that are not open yet."""
        return []

    def collect(self) -> Iterator[Metric]:
        table = self._server.table
        yield CONNECTIONS.of(len(self._server.connections))
        yield LIMIT.of(self._server.limits.connections_max)
        yield REFUSED.of(table.refused)
        yield MADE_WAY.of(table.made_way)
        calls, refusals = CALLS.family(), REFUSALS.family()
        for method, count in self._calls.counts.items():
            calls.add_metric((method,), count)
        for name, count in self._calls.failures.items():
            refusals.add_metric((name,), count)
        yield from (calls, refusals)
        yield from self._journals.collect()

    def _beans(self) -> Mapping[str, Mapping[str, int | float | str]]:
        return {f"Journal-{name}": journal.metrics.snapshot() for name, journal in journals_of(self._node)}


def journals_of(node: JournalNode) -> Iterator[tuple[str, Any]]:
    """The node's known journals, by name."""
    for journal_id, journal in sorted(node.journals.items()):
        if not journal.is_unknown:
            yield journal_id, journal
