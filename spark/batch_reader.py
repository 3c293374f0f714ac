"""The batch reader of closed ledgers: the driver plans the batch, and tasks read it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ledgers import LedgerClient

from .planning.journal_segments import finalized_segments
from .planning.options import LedgerOptions
from .planning.partition import PlannedReader
from .planning.ranges import LedgerRange

if TYPE_CHECKING:
    import pyarrow as pa


class LedgerReader(PlannedReader[LedgerOptions, LedgerRange]):
    def _tasks(self, uri: str) -> Sequence[tuple[LedgerRange, ...]]:
        options = self._options
        selection = options.selection
        if options.journal is not None:
            found = finalized_segments(uri, options.journal, options.acceptors)
            selection = selection.of_ledgers([s.ledger_id for s in asyncio.run(found)])
        with LedgerClient(uri) as client:
            extents = selection.resolve(client, self._access.password)
        return asyncio.run(options.tasks(uri, extents))

    def _record_batches(self, ranges: Sequence[LedgerRange]) -> Iterator[pa.RecordBatch]:
        from .executors.range_reader import record_batches

        return record_batches(self._access, ranges, self._names)
