"""Applies operator requests: a bookie that is drained or decommissioned accepts no new entries."""

from __future__ import annotations

import asyncio
import logging

from metadata.audit import Act, record_audit
from metadata.counting.outage import weight
from metadata.errors import MetadataError
from metadata.healing import operator_requests
from metadata.healing.operator_requests import OrderKind
from metadata.store import MetadataStore

from ..disk.space_guard import SpaceGuard

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
"""Interval between reads of the requests for this bookie."""

WHY_READ_ONLY = {
    OrderKind.DRAIN: "the bookie is being drained",
    OrderKind.GIVEN_UP: "the bookie is being decommissioned; cancel: `bookledger cluster decommission NAME --cancel`",
}


async def obey_operator_requests(store: MetadataStore, bookie_id: str, space: SpaceGuard) -> None:
    """Polls the operator's requests until cancelled. While the metadata does not answer, the last known request remains
    in force."""
    stands: OrderKind | None = None
    while True:
        try:
            order = await operator_requests.read(store, bookie_id)
        except MetadataError as error:
            log.log(weight(error), "cannot read requests for this bookie, will try again: %s", error)
        else:
            stands = _audit_change(bookie_id, stands, order.kind if order is not None else None)
            space.ordered("" if stands is None else WHY_READ_ONLY.get(stands, ""))
        await asyncio.sleep(LOOK_SECONDS)


def _audit_change(bookie_id: str, before: OrderKind | None, now: OrderKind | None) -> OrderKind | None:
    """Returns the current request, and audits it if it has changed."""
    if before is not now:
        record_audit(Act.ORDER, bookie=bookie_id, order="taken back" if now is None else now.value)
    return now
