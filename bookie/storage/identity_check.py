"""A bookie that holds one ledger takes and gives nothing of another under its id (rule W8).

Ids are never given twice, unless the metadata went back: an older copy of it was put in place, and knows nothing of the
ledgers that were made since. The identity that each ledger gets at its creation tells two of one id apart.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ..index.ledger_state import LedgerState
from ..wire.messages import HoldingsRequest, LacRequest, ReadRequest
from .counting.seldom import Seldom

log = logging.getLogger(__name__)

TOLD_SECONDS_MIN = 10.0
"""Between one line of the log and the next."""


class IdentityCheck:
    """Refuses requests for other ledgers than those that are here, and logs that, at most each TOLD_SECONDS_MIN.
    Belongs to the event loop."""

    def __init__(self, state_of: Callable[[int], LedgerState], clock: Callable[[], float]) -> None:
        self._state_of = state_of
        self._clock = clock
        self._seldom = Seldom(TOLD_SECONDS_MIN)

    def why(self, request: ReadRequest | LacRequest | HoldingsRequest) -> str:
        """Why it is refused, where the ledger here is another than the one that is asked for; empty where it is not."""
        if why := self._state_of(request.ledger_id).identity_mismatch(request.identity):
            self.tell(why)
        return why

    def tell(self, why: str) -> None:
        """A request was refused."""
        if (untold := self._seldom.untold(self._clock())) is None:
            return
        more = f"; {untold} more requests were refused since the last such line" if untold else ""
        log.error("refused: %s%s", why, more)
