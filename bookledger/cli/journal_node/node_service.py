"""Serves a JournalNode: Hadoop's RPC, and over HTTP its segments, beans, health, metrics and the console."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from metadata.counting.store_metrics import MetadataMetrics
from metadata.records.cluster import cluster_id
from qjm_compat.hadoop.journal_node_daemon import NodeConfig, RunningNode, running

from ...admin.http.server import serving_http
from ...admin.http_content import HttpContent
from ...admin.lifecycle_log import log_lifecycle
from ...admin.loop_lag import watching_lag
from ...admin.process_metrics import process_registry
from ...console.console import Console
from ..config.clients import client_config, http_config


async def serve_node(config: NodeConfig, on_ready: Callable[[RunningNode], None]) -> None:
    """Serves until it is cancelled. Raises LedgerError, MetadataError, and NameInUse if another daemon has the name."""
    registry = process_registry()
    config = replace(config, client=replace(config.client, metrics=registry))
    console = Console(config.metadata_uri, config=client_config(certificates=config.client.certificates))
    async with running(config) as node:
        registry.register(node.metrics)
        registry.register(MetadataMetrics(node.store.counts))
        routes = [*node.pages.routes(), *console.routes()]
        content = HttpContent(registry, node.findings, routes, console.error_page)
        async with (
            serving_http(config.http_host, 0, content, bound=config.http, config=http_config()),
            watching_lag(registry),
            console.open(),
        ):
            record = node.record
            addresses = f"rpc {record.rpc_address}, http {record.http_address}"
            cluster = await cluster_id(node.store)
            with log_lifecycle(f"journal node {record.name}", f", {addresses}, cluster {cluster}"):
                on_ready(node)
                await node.broken  # returns only if the name was lost
