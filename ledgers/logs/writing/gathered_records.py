"""Single records of one iteration of the loop: taken in together, they have one head and cost one step."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...entry import ENTRY_OVERHEAD_BYTES


@dataclass(slots=True)
class GatheredRecords:
    """Payloads without other fields, in order. `entry_bytes`: their size as entries."""

    payloads: list[bytes] = field(default_factory=list)
    entry_bytes: int = 0

    @property
    def size_bytes(self) -> int:
        """Their size, each with its overhead."""
        return self.entry_bytes + ENTRY_OVERHEAD_BYTES * len(self.payloads)

    def take(self) -> tuple[list[bytes], int]:
        """Removes and returns all of them, and their size as entries."""
        taken = self.payloads, self.entry_bytes
        self.payloads, self.entry_bytes = [], 0
        return taken
