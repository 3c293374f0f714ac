"""Runs one bookie as a process: builds its configuration from options and the settings file, serves its HTTP pages, and
prints its addresses."""

from __future__ import annotations

import asyncio
import gc
import sys
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from bookie.config import MIB, BookieConfig
from bookie.limits_config import Limits
from bookie.serving.daemon import RunningBookie
from bookie.serving.daemon import run as run_daemon
from bookie.serving.directory import read_cookie
from bookie.upkeep_config import UpkeepConfig
from bookie.wire.credentials import BookieKey
from ledgers.config import PLAIN_TEXT
from ledgers.recovering.cluster_peers import ClusterPeers
from metadata.settings.tunable import elsewhere_of
from metadata.store import MetadataStore

from ...admin import systemd
from ...admin.bookies import Bookies
from ...admin.http_option import HttpAddress
from ...admin.trace_export import tracing_to
from ..config.clients import client_config, http_port, print_page_urls
from ..config.settings import settings_now
from ..event_loop import EventLoop, factory_of
from ..journal_node.node_options import NodeOptions
from ..output import print_json
from ..terminal import say

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from ..journal_node.embedded_node import EmbeddedNode


_OF_MIB = {
    "free_space_min_mib": "disk_free_bytes_min",
    "segment_mib": "segment_bytes_max",
    "compaction_mib": "compaction_bytes_per_second",
    "scrub_mib": "scrub_bytes_per_second",
}
"""Settings in bytes, keyed by the corresponding options in MiB."""


def config_of(**options: Any) -> BookieConfig:
    """Returns the configuration built from the settings file and the options of `bookie run`, which have the same names
    as its fields.

    Raises SettingsUsageError.
    """
    settings = settings_now()
    options |= {setting: options.pop(option) * MIB for option, setting in _OF_MIB.items()}
    own = {name: options.pop(name) for name in elsewhere_of(UpkeepConfig) if name in options}
    upkeep = settings.made("upkeep", UpkeepConfig, **own)
    return settings.made(
        "bookie", BookieConfig, limits=settings.made("limits", Limits), upkeep=upkeep, **options
    )


class Serving:
    """Runs one bookie, and its HTTP port if there is one."""

    def __init__(
        self,
        config: BookieConfig,
        http: HttpAddress | None,
        node: NodeOptions | None = None,
        *,
        until_stdin_closes: bool,
        as_json: bool,
    ) -> None:
        self._config = config
        self._asked = node
        self._node: EmbeddedNode | None = None
        self._http = http
        self._bookies = Bookies(1)
        self._running: RunningBookie | None = None
        self._until_stdin_closes = until_stdin_closes
        self._as_json = as_json

    def run(self, event_loop: EventLoop, traces: str | None) -> None:
        """Serves until SIGTERM or SIGINT. Raises the error that prevented or ended serving."""
        directory = self._config.data_directory
        with (
            tracing_to(traces, "bookledger-bookie", lambda: read_cookie(directory).bookie_id) as provider,
            asyncio.Runner(loop_factory=factory_of(event_loop)) as runner,
        ):
            runner.run(self._serve(provider))

    async def _serve(self, provider: TracerProvider | None) -> None:
        config = replace(self._config, tracing=provider)
        if self._asked is not None:
            from ..journal_node.embedded_node import EmbeddedNode  # not needed without a node

            self._node = EmbeddedNode(self._asked, config)
            config = replace(config, descriptors_elsewhere=self._node.connections_max)
        async with systemd.feed_watchdog(self._log_stuck_seconds), self._pages() as url:
            await run_daemon(
                config,
                partial(self._ready, url),
                partial(self._peers_of, provider),
                beside=[] if self._node is None else [self._node.run],
                on_stop=partial(systemd.notify, systemd.STOPPING),
                until_stdin_closes=self._until_stdin_closes,
            )

    def _pages(self) -> AbstractAsyncContextManager[str | None]:
        config = self._config
        return http_port(
            self._http,
            self._bookies,
            config.metadata_uri,
            insecure=config.insecure,
            certificates=config.certificates,
            lost_after_seconds=config.upkeep.lost_bookie_seconds,
        )

    def _peers_of(
        self, provider: TracerProvider | None, store: MetadataStore, key: BookieKey
    ) -> ClusterPeers:
        certificates = self._config.certificates
        own = client_config(certificates=str(certificates) if certificates else PLAIN_TEXT, tracing=provider)
        return ClusterPeers(store, own, key=key)

    def _log_stuck_seconds(self) -> float:
        return 0.0 if self._running is None else self._running.bookie.log_busy_seconds

    def _ready(self, url: str | None, running: RunningBookie) -> None:
        self._running = running
        self._bookies.has_started(running)
        self._say(url, running)
        sys.stdout.flush()
        systemd.notify(systemd.READY)
        gc.collect()
        gc.freeze()  # what was allocated during startup lives until the process ends: exempt it from collection

    def _say(self, url: str | None, running: RunningBookie) -> None:
        node = None if self._node is None else self._node.describe(running)
        if self._as_json:
            more = {"http": url, "journal_node": node}
            shown = {name: value for name, value in more.items() if value is not None}
            print_json({**running.cookie.names, "address": running.address, **shown})
            return
        say(f"bookie {running.cookie.bookie_id} serves on {running.address}")
        print_page_urls(url)
        if node:
            say(f"journal node {node['name']}: rpc {node['rpc']} http {node['http']}")
