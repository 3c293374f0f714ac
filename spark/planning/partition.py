"""The partition of one task, as Spark sends it from the driver to an executor."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from .ranges import EntryRange


@dataclass(frozen=True)
class LedgerPartition(InputPartition):
    """The work of one task."""

    ranges: tuple[EntryRange, ...]

    def __repr__(self) -> str:
        entries = sum(r.last_entry - r.first_entry + 1 for r in self.ranges)
        return f"LedgerPartition({len(self.ranges)} ranges, {entries} entries)"
