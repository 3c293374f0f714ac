"""`bookledger autorecovery`: runs a standalone auditor, on a host without a bookie."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
import uuid
from functools import partial
from pathlib import Path

from bookie.serving.preflight import check_clock
from bookie.serving.stopping import until_stopped
from bookie.upkeep.healing.auditor import Auditor
from bookie.upkeep.repair_client import NoPeers, Peers
from bookie.upkeep_config import UpkeepConfig
from metadata import keys, open_store
from metadata.counting.counting_store import CountingStore
from metadata.counting.health_watch import watching_health
from metadata.records.cluster import cluster_id
from metadata.records.ledger_record import BookieRef
from metadata.store import MetadataStore

from ..admin import systemd
from ..admin.autorecovery_health import AutorecoveryHealth
from ..admin.http_option import HttpAddress, http_option
from ..admin.lifecycle_log import log_lifecycle
from .config.clients import client_config, http_port, print_page_urls
from .config.settings import settings_now
from .membership.cluster_survey import check_is_cluster, lost_after_option
from .messages.help import command
from .options import certificates_option, insecure_option, json_option, metadata_option
from .output import print_json
from .terminal import say

NAME_CHARACTERS_MAX = 128


@command()
@metadata_option
@lost_after_option
@certificates_option
@insecure_option
@http_option
@json_option
def autorecovery(
    metadata_uri: str,
    lost_after: float,
    certificates: Path | None,
    insecure: bool,
    http: HttpAddress | None,
    as_json: bool,
) -> None:
    """Run a cluster's auditor until SIGTERM or SIGINT.

    Only one candidate at a time is the auditor. Every bookie is already a candidate, so this command is only needed to
    run an auditor on another host. The auditor marks ledgers that need healing; bookies heal them. With --certs it also
    checks that it can reach each bookie at its address.

    Examples:
        bookledger autorecovery
        bookledger autorecovery --lost-after 1800 --http 127.0.0.1:9181
    """
    check_clock()
    check_is_cluster(metadata_uri)
    config = settings_now().made("upkeep", UpkeepConfig, lost_bookie_seconds=lost_after)
    name = f"autorecovery-{socket.gethostname()}"[:NAME_CHARACTERS_MAX]
    me = BookieRef(name if keys.is_name(name) else "autorecovery", str(uuid.uuid4()))

    async def audit() -> None:
        store = CountingStore(await open_store(metadata_uri))
        peers = _peers(store, certificates)
        auditor = Auditor(store, me, config, time.time, peers)
        watched = AutorecoveryHealth()
        try:
            async with (
                systemd.feed_watchdog(),
                http_port(
                    http,
                    watched,
                    metadata_uri,
                    insecure=insecure,
                    certificates=certificates,
                    lost_after_seconds=lost_after,
                ) as url,
            ):
                watched.has_started(auditor, store)
                _announce(me, url, as_json=as_json)
                systemd.notify(systemd.READY)
                with log_lifecycle(f"auditor {me}", f", cluster {await cluster_id(store)}"):
                    async with watching_health(store):
                        await auditor.run()
        finally:
            await peers.close()
            await store.close()

    asyncio.run(until_stopped(audit(), on_stop=partial(systemd.notify, systemd.STOPPING)))


def _peers(store: MetadataStore, certificates: Path | None) -> Peers:
    """Returns the client that probes bookies; None without certificates, because bookies with TLS would then seem
    unreachable."""
    if certificates is None:
        return NoPeers()
    from ledgers.recovering.cluster_peers import ClusterPeers

    return ClusterPeers(store, client_config(certificates=str(certificates)))


def _announce(me: BookieRef, url: str | None, *, as_json: bool) -> None:
    if as_json:
        print_json({"auditor": str(me), **({"http": url} if url else {})})
    else:
        say(f"{me} is a candidate for auditor")
        print_page_urls(url)
    sys.stdout.flush()
