"""What copies may lack of entries that are confirmed, so that the ledger's record says it (rule W6).

An entry is confirmed when an ack quorum has it. The other copies of its write quorum may be under way still, or never
arrive: a bookie failed, or the writer gave up on it. The record must tell, or nobody would know without asking every
bookie for every entry. Where this is not sure the record says more is lacking than is, never less.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from metadata.records.ledger_record import LedgerRecord

from .striping import Striping


@dataclass(frozen=True, slots=True)
class _Gap:
    position: int
    first_entry: int
    last_entry: int


class Shortfall:
    """What one writer's positions lack, and what of that its record says already."""

    def __init__(self, striping: Striping) -> None:
        self._striping = striping
        self._lost: list[_Gap] = []  # will not arrive any more, and is not in the record yet
        self._telling: list[_Gap] = []  # under way when the record was last made
        self._hoped: list[_Gap] = []  # is in the record, and may have arrived since

    def withdrawn(self, position: int, acked_through: int, confirmed_through: int) -> None:
        """The position begins anew behind what is confirmed: what of that it never acknowledged is not sent again."""
        hoped = [one for one in self._hoped if one.position == position and one.last_entry > acked_through]
        self._hoped = [one for one in self._hoped if one not in hoped]
        gap = self._gap(position, acked_through, confirmed_through)
        if gap is not None and not any(one.last_entry == gap.last_entry for one in hoped):
            self._lost.append(gap)

    def told(self, record: LedgerRecord, acked: Mapping[int, int], confirmed_through: int) -> LedgerRecord:
        """The record with all that may be lacking now, and without what has arrived since it said so.

        `acked`: what each position has acknowledged.
        """
        for gap in self._hoped:  # what has not arrived is under way still, and told again
            record = record.without_lacking(gap.position, gap.first_entry, gap.last_entry)
        gaps = (self._gap(n, through, confirmed_through) for n, through in acked.items())
        self._telling = [gap for gap in gaps if gap is not None]
        for gap in (*self._lost, *self._telling):
            record = record.with_lacking(gap.position, gap.first_entry, gap.last_entry)
        return record

    def stands(self) -> None:
        """The record stands as `told` made it last."""
        self._lost, self._hoped = [], self._telling

    def _gap(self, position: int, acked_through: int, confirmed_through: int) -> _Gap | None:
        held = self._striping.held_between(position, acked_through + 1, confirmed_through)
        return None if held is None else _Gap(position, *held)
