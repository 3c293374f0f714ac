"""Whether the metadata may be acted on: not while it is an older copy that no operator has accepted (rule W8)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from bookie.wire import LacReply, Status
from metadata.backup import hold
from metadata.errors import MetadataRestored

from ..cluster import Cluster
from ..errors import LedgerRecoveryFailed
from ..protocol.fencing import Fencing

VOUCHED_SECONDS_MAX = 15.0
"""How long a bookie that came back lately is asked again whether it can vouch for the metadata now: until then all that
are registered have renewed a lease of ten seconds."""

ASKED_AGAIN_SECONDS = 0.25


async def check_accepted(cluster: Cluster, ledger_id: int) -> None:
    """Raises LedgerRecoveryFailed where the metadata is an older copy that nobody has accepted, and MetadataError."""
    try:
        await hold.check_accepted(cluster.store)
    except MetadataRestored as error:
        raise LedgerRecoveryFailed(ledger_id, str(error)) from error


async def until_vouched_for(
    cluster: Cluster, fencing: Fencing, reply: LacReply, fence: Callable[[], Awaitable[LacReply]]
) -> LacReply:
    """The last answer of a bookie that was fenced, once it or another vouches for the metadata, or it takes too long.

    Raises BookieUnavailable, LedgerRecoveryFailed where somebody has noticed meanwhile that it went back, and
    MetadataError.
    """
    now = asyncio.get_running_loop().time
    deadline = now() + VOUCHED_SECONDS_MAX
    while (
        reply.status in (Status.OK, Status.NO_SUCH_LEDGER)
        and not (fencing.vouches(reply) or fencing.is_vouched_for)
        and now() < deadline
    ):
        await check_accepted(cluster, fencing.ledger_id)
        await asyncio.sleep(ASKED_AGAIN_SECONDS)
        reply = await fence()
    return reply
