"""A JournalNode's metrics: Hadoop's JMX beans for `/jmx`, and Prometheus metrics."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from prometheus_client import Metric
from prometheus_client.registry import Collector

from metadata.counting.metric_declarations import MetricTable
from metadata.records.journal_record import JournalStorage

from ...prometheus import JournalMetrics
from ..server.call_dispatcher import CallDispatcher
from ..server.connections import RpcServer
from ..server.node import JournalNode

PREFIX = "Hadoop:service=JournalNode,name="

METRICS = MetricTable("journalnode", "A journal node: `journal serve`")

CONNECTIONS = METRICS.gauge("connections", "Connections to the RPC port, from NameNodes and other clients.")
LIMIT = METRICS.gauge("connections_limit", "Maximum number of connections to the RPC port.")
REFUSED = METRICS.counter("connections_refused", "Connections refused because the limit was reached.")
MADE_WAY = METRICS.counter(
    "connections_made_way",
    "Connections closed to make room for new ones: silent ones, or those of the address with the most.",
)
CALLS = METRICS.counter("calls", "Calls from NameNodes and other clients, by method.", "method")
REFUSALS = METRICS.counter("refusals", "Calls that failed, by the error class sent to the caller.", "error")


class Beans:
    """The JMX beans of one daemon. NameNodes reach the daemon at `rpc_address`."""

    def __init__(self, node: JournalNode, calls: CallDispatcher, server: RpcServer, rpc_address: str) -> None:
        self._node = node
        self._calls = calls
        self._server = server
        self._rpc_address = rpc_address
        self._started_at_ms = time.time_ns() // 1_000_000
        self._version = f"bookledger {_version()}"

    def found(self, query: str) -> list[dict[str, Any]]:
        """Returns the beans whose names match the `qry` parameter, a pattern like that of Java's ObjectName, or all
        beans if the parameter is empty."""
        return [bean for bean in self._all() if not query or _matches(query, bean["name"])]

    def _all(self) -> Iterator[dict[str, Any]]:
        port = self._rpc_address.rpartition(":")[2]
        host = {"tag.Hostname": socket.gethostname()}
        yield {**_named("JournalNodeInfo"), **self._info()}
        yield {**_named(f"RpcActivityForPort{port}"), **host, "tag.port": port, **self._activity()}
        yield {**_named(f"RpcDetailedActivityForPort{port}"), **host, "tag.port": port, **self._by_method()}
        for journal_id, journal in journals_of(self._node):
            tags = {"tag.Context": "dfs", "tag.JournalId": journal_id, **host}
            yield {**_named(f"Journal-{journal_id}"), **tags, **journal.metrics.snapshot()}

    def _info(self) -> dict[str, Any]:
        held = {journal_id: journal.storage for journal_id, journal in journals_of(self._node)}
        formatted = [storage for storage in held.values() if storage is not None]
        status = {one: {"Formatted": "false" if storage is None else "true"} for one, storage in held.items()}
        return {
            "JournalsStatus": json.dumps(status),
            "HostAndPort": self._rpc_address,
            "ClusterIds": sorted({storage.cluster_id for storage in formatted}),
            "Version": self._version,
            "JNStartedTimeInMillis": self._started_at_ms,
            "StorageInfos": [_storage_info(storage) for storage in formatted],
        }

    def _activity(self) -> dict[str, Any]:
        times, calls, now = self._calls.times, self._calls.counts.total(), time.monotonic()
        return {
            "NumOpenConnections": len(self._server.connections),
            "RpcQueueTimeNumOps": calls,
            "RpcQueueTimeAvgTime": times.queued.millis(now),
            "RpcProcessingTimeNumOps": calls,
            "RpcProcessingTimeAvgTime": times.processed.millis(now),
            "RpcFailures": self._calls.failures.total(),
        }

    def _by_method(self) -> dict[str, Any]:
        times, now = self._calls.times.by_method, time.monotonic()
        found: dict[str, Any] = {}
        for name, count in self._calls.counts.items():
            title = f"{name[0].upper()}{name[1:]}"
            found[f"{title}NumOps"] = count
            found[f"{title}AvgTime"] = times[name].millis(now)
        return found


def _version() -> str:
    try:
        return version("bookledger")
    except PackageNotFoundError:  # running from a checkout that is not installed
        return "unknown"


def _named(name: str) -> dict[str, Any]:
    return {"name": PREFIX + name, "modelerType": name}


def _matches(pattern: str, name: str) -> bool:
    """Returns whether a name like `Hadoop:service=JournalNode,name=Journal-ns1` matches; `*` and `?` are wildcards."""
    domain, _, wanted = pattern.partition(":")
    own_domain, _, own = name.partition(":")
    if not _is_like(own_domain, domain):
        return False
    keys = dict(pair.partition("=")[::2] for pair in own.split(","))
    others_may_be = wanted == "*" or wanted.endswith(",*")
    asked = dict(pair.partition("=")[::2] for pair in wanted.split(",") if pair != "*")
    if not others_may_be and asked.keys() != keys.keys():
        return False
    return all(key in keys and _is_like(keys[key], value) for key, value in asked.items())


def _is_like(text: str, pattern: str) -> bool:
    return fnmatchcase(text, pattern.replace("[", "[[]"))


def _storage_info(storage: JournalStorage) -> str:
    """Formats storage info as Hadoop prints it: like a Java map, with the fields in the same order."""
    return (
        f"{{ClusterId={storage.cluster_id}, CreationTime={storage.c_time}, "
        f"NamespaceId={storage.namespace_id}, LayoutVersion={storage.layout_version}}}"
    )


class JournalNodeMetrics(Collector):
    """Prometheus metrics: the daemon's connections and calls (`bookledger_journalnode_…`), and the fields of each bean
    (`hadoop_journal_…`)."""

    def __init__(self, node: JournalNode, calls: CallDispatcher, server: RpcServer) -> None:
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
    """Yields the node's journals by name, except unknown ones (`Journal.is_unknown`)."""
    for journal_id, journal in sorted(node.journals.items()):
        if not journal.is_unknown:
            yield journal_id, journal
