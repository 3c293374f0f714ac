"""Cross-checks the index and one segment of the log, in both directions, because the index's pages have no checksums.

The audit takes the index's byte counts of a segment before the check, and subtracts the live frames that the check
finds. If a ledger's count reaches zero, every frame that the index points to is there and intact. If not, frames may be
damaged, may be elsewhere, or may have been moved meanwhile; they are checked one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ...index.index import Index
from ...index.places import Frame, FrameLocation
from ...wire.messages import EntryRange
from ..inventory.gaps import uncovered
from ..inventory.inventory import is_solid

COPIES_LOOKED_AT_MAX = 4096
"""Maximum number of index entries that are compared with a frame that the index does not point to."""


class Audit:
    """Cross-check of one segment. Reads the index as of the last checkpoint; for one thread at a time."""

    def __init__(self, index: Index, segment: int) -> None:
        self._index = index
        self._left = Counter({n: held.frame_bytes for n, held in index.usage.of(segment).items()})

    def hidden(self, frames: Sequence[Frame]) -> list[Frame]:
        """Counts frames of the log; returns those that the index has neither here nor elsewhere.

        Returns only frames of ledgers that the index knows. The metadata decides whether the index should have them.
        """
        hidden: list[Frame] = []
        for (ledger_id, place), alive in zip(frames, self._index.still_points_to(frames), strict=True):
            if alive:
                self._left[ledger_id] -= place.size
            elif self._is_nowhere(ledger_id, place):
                hidden.append((ledger_id, place))
        return hidden

    def suspects(self) -> list[int]:
        """After the check: ledgers with frames in the segment that are not accounted for."""
        return [ledger_id for ledger_id, left in self._left.items() if left]

    def _is_nowhere(self, ledger_id: int, place: FrameLocation) -> bool:
        if self._index.ledger(ledger_id) is None:
            return False  # the ledger is forgotten, with its frames
        first, last = place.first_entry, place.last_entry
        others = self._index.holding(ledger_id, first, last, (), COPIES_LOOKED_AT_MAX)
        if any(other[2:] == place[2:] and other.first_entry == first for other in others):
            return False  # the frame was moved, or fetched again
        whole = (EntryRange(one.first_entry, one.last_entry) for one in others if is_solid(one))
        return any(uncovered(first, last, whole))
