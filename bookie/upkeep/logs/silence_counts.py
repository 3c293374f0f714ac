"""Counts how long the cursors of one log have not moved, by the auditor's own monotonic clock. Pure.

Consumers' clocks are not used. An auditor adds the time between two of its checks to the times that earlier auditors
have recorded, as long as neither the cursor nor the record changes; so two simultaneous auditors do not count the same
time twice.
"""

from __future__ import annotations

from collections.abc import Mapping

from metadata.records.logs.silences import Silence, Silences

LOOK_SECONDS_MAX = 600.0
"""Maximum seconds counted between two checks, because the auditor or the metadata may have been unavailable in between.
"""

TELL_MS = 60_000
TELL_SHARE = 100
"""A silence is recorded again when it has grown by at least TELL_MS and 1/TELL_SHARE of its recorded value."""


class SilenceCounts:
    """Silences (how long cursors have not moved) that one auditor has counted for one log but not recorded yet."""

    def __init__(self) -> None:
        self._looked_at = 0.0
        self._recorded_at = -1
        self._seen: dict[str, int] = {}
        self._unrecorded_ms: dict[str, float] = {}

    def look(self, recorded: Silences, behind: Mapping[str, int], now: float) -> dict[str, int]:
        """Returns the silence in milliseconds of each cursor in `behind`, which maps cursor names to the versions of
        their records."""
        passed_ms = min(now - self._looked_at, LOOK_SECONDS_MAX) * 1000
        is_ours = recorded.version == self._recorded_at
        self._unrecorded_ms = {
            name: self._unrecorded_ms[name] + passed_ms
            if is_ours and self._seen.get(name) == version
            else 0.0
            for name, version in behind.items()
        }
        self._looked_at, self._recorded_at, self._seen = now, recorded.version, dict(behind)
        return {
            name: recorded.of(name, version) + int(self._unrecorded_ms[name])
            for name, version in behind.items()
        }

    def to_record(self, silent_ms: Mapping[str, int]) -> dict[str, Silence] | None:
        """Returns the silences to record after `look` has returned `silent_ms`; None if they have not grown enough."""
        if not any(self._has_grown(name, ms) for name, ms in silent_ms.items()):
            return None
        return {name: Silence(self._seen[name], ms) for name, ms in silent_ms.items() if ms}

    def _has_grown(self, name: str, silent_ms: int) -> bool:
        unrecorded = self._unrecorded_ms[name]
        return unrecorded >= max(TELL_MS, (silent_ms - unrecorded) / TELL_SHARE)

    def recorded(self, version: int) -> None:
        """Marks all counted silences as recorded at this version."""
        self._recorded_at = version
        self._unrecorded_ms = dict.fromkeys(self._unrecorded_ms, 0.0)
