"""Single records that come in one iteration of the loop: taken together, they have one head and cost one step."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...entry import ENTRY_OVERHEAD_BYTES


@dataclass(slots=True)
class GatheredRecords:
    """Payloads without other fields, in order. `entry_bytes`: what they take as entries."""

    payloads: list[bytes] = field(default_factory=list)
    entry_bytes: int = 0

    @property
    def size_bytes(self) -> int:
        """What they take, each with its overhead."""
        return self.entry_bytes + ENTRY_OVERHEAD_BYTES * len(self.payloads)

    def take(self) -> tuple[list[bytes], int]:
        """Removes and returns all of them, and what they take as entries."""
        taken = self.payloads, self.entry_bytes
        self.payloads, self.entry_bytes = [], 0
        return taken
