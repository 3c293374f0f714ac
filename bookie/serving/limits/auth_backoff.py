"""Authentication back-off: each false proof of a peer doubles the delay of its next handshake."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

PENALTY_SECONDS = 0.1
PENALTY_SECONDS_MAX = 2.0
"""Longest delay. Shorter than the time that clients wait for a server hello: others behind the same address are slowed
down, not kept out."""

FORGIVEN_SECONDS = 60.0
"""A peer's count is reset this long after its last false proof."""

SUSPECTS_MAX = 1024
"""Limit on remembered peers; the one whose last false proof is oldest is forgotten first."""


class AuthBackoff:
    """Counts false proofs by peer. `now` is the loop's clock."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._false: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self.proofs_refused = 0

    def was_false(self, peer: str) -> None:
        """Counts a false proof of this peer."""
        self.proofs_refused += 1
        count = self._count(peer)
        self._false[peer] = (count + 1, self._now())
        self._false.move_to_end(peer)
        if len(self._false) > SUSPECTS_MAX:
            self._false.popitem(last=False)

    def penalty_seconds(self, peer: str) -> float:
        """Returns the delay of the peer's next handshake."""
        count = self._count(peer)
        return min(PENALTY_SECONDS_MAX, PENALTY_SECONDS * 2.0 ** min(count - 1, 16)) if count else 0.0

    def _count(self, peer: str) -> int:
        count, last = self._false.get(peer, (0, 0.0))
        return count if self._now() - last < FORGIVEN_SECONDS else 0
