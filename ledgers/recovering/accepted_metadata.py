"""Checks whether the metadata may be acted on, which is not the case while it is an older copy that no operator has
accepted (rule W8)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from bookie.wire import LacReply
from metadata.backup import hold
from metadata.errors import MetadataRestored

from ..cluster import Cluster
from ..errors import LedgerRecoveryFailed
from ..protocol.fencing import Fencing

VOUCHED_SECONDS_MAX = 15.0
"""How long to keep asking a bookie that recently came back whether it can vouch for the metadata: within this time, all
registered bookies have renewed a lease of ten seconds."""

ASKED_AGAIN_SECONDS_MIN = 0.25
ASKED_AGAIN_SECONDS_MAX = 2.0
"""The pause before the bookie is asked again begins at the minimum and doubles up to the maximum, because after a power
cut a thousand ledgers may be recovered at once."""


async def check_accepted(cluster: Cluster, ledger_id: int) -> None:
    """Raises LedgerRecoveryFailed if the metadata is an older copy that no operator has accepted; may raise
    MetadataError."""
    try:
        await hold.check_accepted(cluster.store)
    except MetadataRestored as error:
        raise LedgerRecoveryFailed(ledger_id, str(error)) from error


async def until_vouched_for(
    cluster: Cluster, fencing: Fencing, fence: Callable[[], Awaitable[LacReply]], vouched: asyncio.Event
) -> LacReply:
    """Returns the last answer of a fenced bookie, once it or another bookie vouches for the metadata, or when the time
    is up. `vouched` is set when another bookie vouches.

    Raises BookieUnavailable, LedgerRecoveryFailed if the metadata was found in the meantime to have gone back to an
    older copy, and MetadataError.
    """
    now = asyncio.get_running_loop().time
    deadline, pause = now() + VOUCHED_SECONDS_MAX, ASKED_AGAIN_SECONDS_MIN
    while fencing.is_to_be_asked_again(reply := await fence()) and not vouched.is_set() and now() < deadline:
        await check_accepted(cluster, fencing.ledger_id)
        with suppress(TimeoutError):  # the usual case: the pause is over
            await asyncio.wait_for(vouched.wait(), min(pause, deadline - now()))
            break
        pause = min(2 * pause, ASKED_AGAIN_SECONDS_MAX)
    return reply
