"""Estimates how a closed ledger's bytes are distributed over its entries, from bookies' indexes, for splitting it
evenly."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from bookie.wire import Holding, HoldingsReply, HoldingsRequest, Status
from metadata.records.ledger_record import BookieRef, Fragment, LedgerRecord

from ..cluster import Cluster
from ..cold.cold_reader import ColdReader
from ..errors import BookieUnavailable, EntryUnreadable
from ..integrity.digest import digester

AskHoldings = Callable[[BookieRef, HoldingsRequest], Awaitable[HoldingsReply]]
"""Asks one bookie for its holdings. Raises BookieUnavailable."""


class SizeStep(NamedTuple):
    """The number of bytes before an entry."""

    entry_id: int
    bytes_before: int


def measured_entries(
    record: LedgerRecord, first_entry: int, last_entry: int | None, step_bytes: int
) -> tuple[int, int]:
    """Returns the first and last entry to measure; `last_entry` defaults to the ledger's last entry. Raises ValueError
    if the ledger is not closed, or if the range or `step_bytes` is invalid."""
    if not record.is_closed or record.last_entry is None:
        raise ValueError(
            f"ledger {record.ledger_id} is {record.state.value}: only closed ledgers can be measured"
        )
    last = record.last_entry if last_entry is None else last_entry
    if not 0 <= first_entry <= last + 1 <= record.last_entry + 1 or not 1 <= step_bytes < 2**63:
        raise ValueError(
            f"cannot measure entries {first_entry} to {last} of the ledger in steps of {step_bytes} bytes"
        )
    return first_entry, last


class SizeSteps:
    """Asks the bookies for the sizes. Bytes that no bookie reports are assumed to be spread evenly."""

    def __init__(self, cluster: Cluster, ask: AskHoldings, record: LedgerRecord, step_bytes: int) -> None:
        self._cluster = cluster
        self._ask_bookie = ask
        self._record = record
        self._step_bytes = step_bytes

    async def of(self, first_entry: int, last_entry: int) -> list[SizeStep]:
        """Returns steps in ascending order, from 0 at the first entry to all bytes after the last entry."""
        steps = [SizeStep(first_entry, 0)]
        if self._record.is_on_no_bookie and first_entry <= last_entry:
            return steps + await self._of_blocks(first_entry, last_entry)
        for fragment, end, size_bytes in self._fragments():
            first, last = max(first_entry, fragment.first_entry), min(last_entry, end - 1)
            if first <= last:
                is_whole = last - first + 1 == end - fragment.first_entry
                found = await self._of_fragment(fragment, first, last, size_bytes if is_whole else None)
                if not found:
                    share = (last - first + 1) / (end - fragment.first_entry)
                    found = [SizeStep(last + 1, int(size_bytes * share))]
                before = steps[-1].bytes_before
                steps += [SizeStep(step.entry_id, before + step.bytes_before) for step in found]
        return steps

    async def _of_blocks(self, first: int, last: int) -> list[SizeStep]:
        """Returns the steps of a ledger in an object store, from its blocks, assuming that all are compressed equally
        well; if the blocks cannot be read, assumes that the bytes are spread evenly."""
        record, nobody = self._record, digester(self._record.digest_type, self._record.ledger_id, b"")
        assert record.length_bytes is not None and record.last_entry is not None, "only closed ledgers"
        try:
            blocks = await ColdReader(self._cluster.cold, record, nobody).blocks()
        except EntryUnreadable:
            blocks = [Holding(0, record.last_entry, record.last_entry + 1, 1)]
        scale = record.length_bytes / sum(one.payload_bytes for one in blocks)
        within = [
            one._replace(
                first_entry=max(first, one.first_entry),
                last_entry=min(last, one.last_entry),
                payload_bytes=round(one.payload_bytes * scale * _share(one, first, last)),
            )
            for one in blocks
            if one.first_entry <= last and one.last_entry >= first
        ]
        return steps_of(within, first, last + 1)

    def _fragments(self) -> Iterable[tuple[Fragment, int, int]]:
        """Yields, for each fragment: the fragment, the entry after its end, and its payload size in bytes."""
        record = self._record
        fragments = record.fragments
        assert record.last_entry is not None and record.length_bytes is not None, "only closed ledgers"
        ends = [*(f.first_entry for f in fragments[1:]), record.last_entry + 1]
        lengths = [*(f.length_before for f in fragments[1:]), record.length_bytes]
        for fragment, end, through in zip(fragments, ends, lengths, strict=True):
            yield fragment, end, through - fragment.length_before

    async def _of_fragment(
        self, fragment: Fragment, first: int, last: int, size_bytes: int | None
    ) -> list[SizeStep]:
        """Returns steps after `first`, up to `size_bytes` if that is known; empty if no bookie answers."""
        answers = await self._ask(fragment.ensemble, first, last)
        found = steps_of([run for runs in answers for run in runs], first, last + 1)
        if not found or not found[-1].bytes_before:
            return []
        shape = self._record.shape
        copies = shape.write_quorum * len(answers) / shape.ensemble_size
        scale = 1 / copies if size_bytes is None else size_bytes / found[-1].bytes_before
        return [SizeStep(step.entry_id, round(step.bytes_before * scale)) for step in found]

    async def _ask(self, ensemble: Sequence[BookieRef], first: int, last: int) -> list[list[Holding]]:
        """Returns the holdings of each bookie that answers; if every bookie has all entries, only those of the first to
        answer."""
        avoided = self._cluster.failed_lately()
        ensemble = [bookie for bookie in ensemble if bookie not in avoided]
        if self._record.shape.write_quorum < self._record.shape.ensemble_size:
            answers = await asyncio.gather(*(self._ask_one(bookie, first, last) for bookie in ensemble))
            return [answer for answer in answers if answer is not None]
        for bookie in ensemble:
            if (answer := await self._ask_one(bookie, first, last)) is not None:
                return [answer]
        return []

    async def _ask_one(self, bookie: BookieRef, first: int, last: int) -> list[Holding] | None:
        held: list[Holding] = []
        while first <= last:
            reply = await self._reply(bookie, first, last)
            if reply is None or reply.covered_through < first:
                return None
            held += reply.holdings
            first = reply.covered_through + 1
        return held

    async def _reply(self, bookie: BookieRef, first: int, last: int) -> HoldingsReply | None:
        asked = self._record.ledger_id, first, last, self._step_bytes, self._record.identity
        request = HoldingsRequest(bookie.incarnation, *asked)
        try:
            reply = await self._ask_bookie(bookie, request)
        except BookieUnavailable:
            self._cluster.note_failure(bookie)
            return None
        return reply if reply.status is Status.OK else None


def _share(run: Holding, first: int, last: int) -> float:
    """Returns the proportion of the run's entries that are within `first` … `last`."""
    within = min(last, run.last_entry) - max(first, run.first_entry) + 1
    return within / (run.last_entry - run.first_entry + 1)


def steps_of(runs: Iterable[Holding], first: int, end: int) -> list[SizeStep]:
    """Adds up the bytes of all runs, spreading each run's bytes evenly over its entries, and returns the steps after
    `first`, up to `end`. Pure."""
    changes: dict[int, float] = {first: 0.0, end: 0.0}
    for run in runs:
        low, high = max(first, run.first_entry), min(end, run.last_entry + 1)
        if low < high:
            bytes_an_entry = run.payload_bytes / (high - low)
            changes[low] = changes.get(low, 0.0) + bytes_an_entry
            changes[high] = changes.get(high, 0.0) - bytes_an_entry
    entry_ids = sorted(changes)
    rates = accumulate(changes[entry_id] for entry_id in entry_ids)
    sizes = [rate * (after - at) for rate, at, after in zip(rates, entry_ids, entry_ids[1:], strict=False)]
    return [SizeStep(*step) for step in zip(entry_ids[1:], map(round, accumulate(sizes)), strict=True)]
