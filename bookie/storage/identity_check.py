"""Refuses requests for a ledger other than the one that the bookie holds under that id (rule W8).

An id is never used twice unless the metadata was rolled back: an operator restored an older copy, which lacks the
ledgers created since. When a ledger is created, it gets an identity, which distinguishes it from any other ledger with
the same id.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from metadata.rate_limit import LogRateLimit

from ..index.local_ledger_state import LocalLedgerState
from ..wire.messages import HoldingsRequest, LacRequest, ReadRequest

log = logging.getLogger(__name__)

LOG_INTERVAL_SECONDS_MIN = 10.0
"""Minimum seconds between two log lines about refusals."""


class IdentityCheck:
    """Refuses requests for another ledger with the same id, and logs the refusals at a limited rate. Belongs to the
    event loop."""

    def __init__(self, state_of: Callable[[int], LocalLedgerState], clock: Callable[[], float]) -> None:
        self._state_of = state_of
        self._clock = clock
        self._seldom = LogRateLimit(LOG_INTERVAL_SECONDS_MIN)

    def why(self, request: ReadRequest | LacRequest | HoldingsRequest) -> str:
        """Returns why the request is refused if the ledger on this bookie has a different identity; otherwise ""."""
        if why := self._state_of(request.ledger_id).identity_mismatch(request.identity):
            self.log_refusal(why)
        return why

    def log_refusal(self, why: str) -> None:
        """Logs a refusal, or only counts it if the rate limit is reached."""
        if (suppressed := self._seldom.admit(self._clock())) is None:
            return
        more = f"; {suppressed} more requests were refused since the last such line" if suppressed else ""
        log.error("refused: %s%s", why, more)
