"""`bookledger autorecovery`: an auditor by itself, on a host without a bookie."""

from __future__ import annotations

import asyncio
import socket
import time
import uuid

import click

from bookie.serving.daemon import until_stopped
from bookie.upkeep.healing.auditor import Auditor
from bookie.upkeep_config import UpkeepConfig
from metadata import keys, open_store
from metadata.records.ledger_record import BookieRef

from .membership.looking import check_is_cluster, lost_after_option
from .options import metadata_option
from .terminal import say

NAME_CHARACTERS_MAX = 128


@click.command()
@metadata_option
@lost_after_option
def autorecovery(metadata_uri: str, lost_after: float) -> None:
    """Look after a cluster as its auditor, until it is told to stop.

    Every bookie stands for that office anyway, so this is for those who want it elsewhere: of all candidates one is the
    auditor at a time. It marks what has to be healed; bookies heal it.
    """
    check_is_cluster(metadata_uri)
    name = f"autorecovery-{socket.gethostname()}"[:NAME_CHARACTERS_MAX]
    me = BookieRef(name if keys.is_name(name) else "autorecovery", str(uuid.uuid4()))

    async def audit() -> None:
        store = await open_store(metadata_uri)
        try:
            say(f"{me} stands for the office of auditor")
            await Auditor(store, me, UpkeepConfig(lost_bookie_seconds=lost_after), time.time).run()
        finally:
            await store.close()

    asyncio.run(until_stopped(audit()))
