"""Selects the ledgers and entries that a job reads, from its options and the metadata."""

from __future__ import annotations

import logging
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import itemgetter
from urllib.parse import urlencode

from ledgers import LedgerClient, LedgerError, LedgerRecord
from metadata.picklable_errors import PicklableError

NAMED_MAX = 20
"""Maximum number of open ledgers listed by id; the rest are only counted."""


class Omissions:
    """The ledgers that were omitted: open ones, and those that belong to logs."""

    def __init__(self) -> None:
        self._of_logs = 0
        self._open: list[int] = []
        self._open_others = 0

    def __bool__(self) -> bool:
        return bool(self._of_logs or self._open)

    def add(self, record: LedgerRecord) -> None:
        if record.is_of_log:
            self._of_logs += 1
        elif len(self._open) < NAMED_MAX:
            self._open.append(record.ledger_id)
        else:
            self._open_others += 1

    def __str__(self) -> str:
        omitted = []
        if self._open:
            more = f" and {self._open_others} more" if self._open_others else ""
            omitted.append(f"open ledgers {', '.join(map(str, self._open))}{more}")
        if self._of_logs:
            omitted.append(f'{self._of_logs} ledgers of logs (read them with format("log"))')
        return "omitted: " + "; ".join(omitted)


log = logging.getLogger(__name__)

LEDGERS_MAX = 1_000_000
"""Maximum number of ledgers that one job may read."""

LOOKED_UP_MAX = 64
"""Up to this many ledgers named by id are looked up one by one; if there are more, all are picked from a listing."""

_PIECE = re.compile(r"(?P<low>\d+)(?:-(?P<high>\d+))?(?::(?P<first>\d+)-(?P<last>\d+))?")


class BadSelection(PicklableError, ValueError):
    """The options are invalid; the message explains why."""


@dataclass(frozen=True, slots=True)
class IdRange:
    """Ledgers `low` … `high`, and in each of them the entries `first_entry` … `last_entry` (None: to the end of the
    ledger)."""

    low: int
    high: int
    first_entry: int = 0
    last_entry: int | None = None

    @property
    def is_single(self) -> bool:
        return self.low == self.high

    def __str__(self) -> str:
        ids = str(self.low) if self.is_single else f"{self.low}-{self.high}"
        return ids if self.last_entry is None else f"{ids}:{self.first_entry}-{self.last_entry}"


@dataclass(frozen=True)
class Selection:
    """Selects ledgers: those in `ids` (all existing ones, if empty) whose custom metadata includes all of `custom`.

    The names in `custom` are in lower case, because Spark converts all option names, and are matched
    case-insensitively. If no option selects ledgers, all closed ledgers that do not belong to a log are selected.
    """

    ids: tuple[IdRange, ...] = ()
    custom: Mapping[str, bytes] = field(default_factory=dict)
    recover: bool = False
    is_complete: bool = False
    """Whether an empty `ids` means no ledgers instead of all."""

    def of_ledgers(self, ledger_ids: Iterable[int]) -> Selection:
        """Returns this selection, restricted to these ledgers."""
        return replace(self, ids=tuple(IdRange(i, i) for i in ledger_ids), is_complete=True)

    def resolve(self, client: LedgerClient, password: bytes) -> list[Extent]:
        """Returns the extents to read, in order of ledger ids, with each entry at most once. Logs a warning that lists
        the omitted ledgers.

        Raises LedgerError if a selected ledger is open, or NoSuchLedger if a ledger named by id does not exist.
        """
        chosen, omitted = [], Omissions()
        for record in self._records(client):
            if self._is_omitted(record):
                omitted.add(record)
            elif self._has_custom(record):
                chosen += self._named_of(self._closed(client, record, password))
            if len(chosen) > LEDGERS_MAX:
                raise BadSelection(
                    f"more than {LEDGERS_MAX} ledgers are selected, but a job may read no more than that"
                )
        if omitted:
            log.warning("%s", omitted)
        return merged(chosen)

    def check(self, client: LedgerClient) -> Omissions:
        """Raises the same errors as `resolve`, but is read-only: no ledger is recovered. Returns the ledgers that
        `resolve` would omit.

        Also raises LedgerError for an empty selection, because that must be a mistake.
        """
        chosen: set[IdRange] = set()
        omitted = Omissions()
        for record in self._records(client):
            if self._is_omitted(record):
                omitted.add(record)
            elif self._has_custom(record):
                self._check_may_be_read(record)
                chosen.update(one for one in self._naming(record.ledger_id) if _has_any(one, record))
        for one in self._ranges:
            if one not in chosen:
                why = f" ({omitted})" if omitted else ""
                raise LedgerError(f"{self._called(one)}: nothing would be read{why}")
        return omitted

    def _called(self, one: IdRange) -> str:
        """Describes, for the error message, a range that selects nothing."""
        which = f" with custom metadata {self._custom_description}" if self.custom else ""
        if one is EVERY_LEDGER:
            return f"there is no {'closed ledger outside of logs' if self.is_no_choice else f'ledger{which}'}"
        if one.last_entry is None:
            return f"there is no ledger {one}{which}"
        return f"no ledger{which} has any of the entries {one}"

    @property
    def _custom_description(self) -> str:
        return ", ".join(f"{name}={value.decode(errors='replace')}" for name, value in self.custom.items())

    def extents(self, record: LedgerRecord) -> list[Extent]:
        """Returns the extents to read from a selected closed ledger, in order, with each entry at most once."""
        return merged(self._named_of(record))

    def wants(self, record: LedgerRecord) -> bool:
        """Returns whether a ledger is selected, provided that it is closed now or will be closed later."""
        is_chosen = self.names(record.ledger_id) and self._has_custom(record)
        return is_chosen and not (self.is_no_choice and record.is_of_log)

    @property
    def is_no_choice(self) -> bool:
        """Whether no option selects ledgers."""
        return not (self.ids or self.custom or self.is_complete)

    def _is_omitted(self, record: LedgerRecord) -> bool:
        return self.is_no_choice and (record.is_of_log or not (record.is_closed or self.recover))

    def names(self, ledger_id: int) -> bool:
        """Returns whether a ledger with this id would be selected, provided its custom metadata matches."""
        return bool(self._naming(ledger_id))

    @property
    def named(self) -> frozenset[int]:
        """Ids of ledgers that are listed one by one. Each of these ledgers must exist."""
        return frozenset(self._by_id[0])

    @cached_property
    def lowest(self) -> int:
        """Lowest id that may be selected."""
        return min((one.low for one in self._ranges), default=0)

    @cached_property
    def highest(self) -> int:
        """Highest id that may be selected."""
        return max((one.high for one in self._ranges), default=-1)

    @property
    def text(self) -> str:
        """A text that identifies the selection: the same for equal options, different for different options, and empty
        for all ledgers."""
        given = [("ledgers", ",".join(map(str, self.ids)))] if self.ids else []
        custom = sorted((f"custom.{name}", value) for name, value in self.custom.items())
        return urlencode([*given, *custom], safe=",:")

    @property
    def _ranges(self) -> tuple[IdRange, ...]:
        return self.ids if self.ids or self.is_complete else (EVERY_LEDGER,)

    def _named_of(self, record: LedgerRecord) -> list[Extent]:
        return [
            Extent(record, one.first_entry, one.last_entry).clipped()
            for one in self._naming(record.ledger_id)
        ]

    def _naming(self, ledger_id: int) -> list[IdRange]:
        """Returns the ranges that include a ledger. Ranges of a single ledger are indexed, because there may be
        thousands."""
        singles, wide = self._by_id
        return singles.get(ledger_id, []) + [one for one in wide if one.low <= ledger_id <= one.high]

    @cached_property
    def _by_id(self) -> tuple[dict[int, list[IdRange]], list[IdRange]]:
        singles: dict[int, list[IdRange]] = {}
        for one in self._ranges:
            if one.is_single:
                singles.setdefault(one.low, []).append(one)
        return singles, [one for one in self._ranges if not one.is_single]

    def _records(self, client: LedgerClient) -> Iterator[LedgerRecord]:
        named = set(self._by_id[0])
        if len(named) == len(self._ranges) <= LOOKED_UP_MAX:
            yield from (client.describe_ledger(ledger_id) for ledger_id in sorted(named))
            return
        for record in self._listed(client):
            named.discard(record.ledger_id)
            yield record
        if named:
            client.describe_ledger(min(named))  # raises the error that explains why the ledger is missing
            raise LedgerError(f"ledger {min(named)} was created while the ledgers were listed: try again")

    def _listed(self, client: LedgerClient) -> Iterator[LedgerRecord]:
        if not self._ranges:
            return
        for record in client.list_ledgers(first_ledger=self.lowest, skip_unreadable=False):
            if record.ledger_id > self.highest:
                return
            if self.names(record.ledger_id):
                yield record

    def _has_custom(self, record: LedgerRecord) -> bool:
        found = {(name.lower(), value) for name, value in record.custom_metadata.items()}
        return found.issuperset(self.custom.items())

    def _closed(self, client: LedgerClient, record: LedgerRecord, password: bytes) -> LedgerRecord:
        self._check_may_be_read(record)
        if record.is_closed:
            return record
        return client.open_ledger(record.ledger_id, password=password).record

    def _check_may_be_read(self, record: LedgerRecord) -> None:
        if not record.is_closed and not self.recover:
            raise LedgerError(
                f"ledger {record.ledger_id} is {record.state.value}, and only closed ledgers are replayed: close "
                "it, leave it out, or set the option recover=true (--recover), which fences its writer"
            )


EVERY_LEDGER = IdRange(0, 2**63 - 1)


def _has_any(one: IdRange, record: LedgerRecord) -> bool:
    """Returns whether a ledger has any of the entries in a range. An open ledger is assumed to have some, because its
    end is unknown."""
    return one.last_entry is None or record.last_entry is None or one.first_entry <= record.last_entry


@dataclass(frozen=True, slots=True)
class Extent:
    """Entries `first_entry` … `last_entry` (None: to the end) of one ledger, with `steps` if the bookies were asked for
    sizes."""

    record: LedgerRecord
    first_entry: int = 0
    last_entry: int | None = None
    steps: Sequence[tuple[int, int]] = field(default=(), repr=False)
    """(entry, bytes before that entry) pairs from the first entry on, as reported by bookies."""

    @property
    def entries(self) -> int:
        """The number of entries of a clipped extent."""
        assert self.last_entry is not None
        return self.last_entry - self.first_entry + 1

    @property
    def end(self) -> int:
        """The first entry after a clipped extent."""
        return self.first_entry + self.entries

    @property
    def payload_bytes(self) -> int:
        """Estimated payload bytes of a clipped extent."""
        return self.bytes_before(self.end) - self.bytes_before(self.first_entry)

    def clipped(self) -> Extent:
        """Returns the part of the extent that the closed ledger contains."""
        end = self.record.last_entry
        assert end is not None
        last = end if self.last_entry is None else min(end, self.last_entry)
        return replace(self, first_entry=min(self.first_entry, last + 1), last_entry=last)

    def bytes_before(self, entry_id: int) -> int:
        """Returns the number of bytes before an entry: exact at the start of each fragment and interpolated in between,
        unless bookies reported `steps`."""
        steps = self.steps or self._fragment_steps()
        behind = bisect_right(steps, entry_id, key=itemgetter(0))
        first, before = steps[max(0, behind - 1)]
        if behind == len(steps):
            return before
        after, through = steps[behind]
        return before + (through - before) * max(0, entry_id - first) // (after - first)

    def _fragment_steps(self) -> Sequence[tuple[int, int]]:
        record = self.record
        starts = [(f.first_entry, f.length_before) for f in record.fragments]
        end = record.last_entry + 1 if record.last_entry is not None else starts[-1][0]
        return [*starts, (end, record.length_bytes or 0)] if end > starts[-1][0] else starts


def parse_ledgers(text: str) -> tuple[IdRange, ...]:
    """Parses `7,9,20-30,5:100-200`: ids and ranges of ids, each optionally limited to some entries. Raises
    BadSelection."""
    found: list[IdRange] = []
    for piece in filter(None, (part.strip() for part in text.split(","))):
        match = _PIECE.fullmatch(piece)
        if match is None:
            raise BadSelection(
                f"{piece!r} is not a ledger or a range of ledgers: write 7, 20-30, or 7:100-200 for some entries of "
                "ledger 7"
            )
        low = int(match["low"])
        high = int(match["high"] or low)
        first, last = int(match["first"] or 0), match["last"]
        if high < low or (last is not None and int(last) < first) or high >= 2**63:
            raise BadSelection(f"{piece!r} is a range that ends before it begins, or beyond the largest id")
        found.append(IdRange(low, high, first, None if last is None else int(last)))
    if not found:
        raise BadSelection("the option ledgers is empty")
    return tuple(found)


def merged(extents: Sequence[Extent]) -> list[Extent]:
    """Sorts clipped extents, merges overlapping ones and drops empty ones, so that no entry is in two extents."""
    found: list[Extent] = []
    filled = [extent for extent in extents if extent.entries > 0]
    for one in sorted(filled, key=lambda extent: (extent.record.ledger_id, extent.first_entry)):
        before = found[-1] if found else None
        if before is None or before.record.ledger_id != one.record.ledger_id or before.end < one.first_entry:
            found.append(one)
        elif before.end < one.end:
            found[-1] = replace(before, last_entry=one.last_entry)
    return found
