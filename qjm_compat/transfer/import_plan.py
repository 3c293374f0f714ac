"""Plans an import before anything is written: selects the edits of a directory to write to a journal. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .errors import TransferRefused
from .files.names import SegmentName


@dataclass(frozen=True, slots=True)
class Held:
    """A segment that the journal has, up to its last durable edit."""

    first_txid: int
    last_txid: int
    in_progress: bool = False

    def __str__(self) -> str:
        return f"{self.first_txid} to {self.last_txid}{' (in progress)' if self.in_progress else ''}"


@dataclass(frozen=True, slots=True)
class ImportSource:
    """A segment file that contains edits, and their txids."""

    name: SegmentName
    last_txid: int

    @property
    def first_txid(self) -> int:
        return self.name.first_txid


@dataclass(frozen=True, slots=True)
class ImportStep:
    """One file to import. The journal has the edits before `from_txid`, and the rest are to be written. `from_txid` is
    None if the journal has all edits of the file."""

    source: ImportSource
    held: tuple[Held, ...]
    from_txid: int | None


def check_gaps(sources: Sequence[ImportSource]) -> None:
    """Raises TransferRefused if txids are missing between the files; the message describes the first gap."""
    for before, after in zip(sources, sources[1:], strict=False):
        if after.first_txid != before.last_txid + 1:
            raise TransferRefused(
                f"txids {before.last_txid + 1} to {after.first_txid - 1} are missing between "
                f"{before.name.file} and {after.name.file}"
            )


def plan(sources: Iterable[ImportSource], held: Sequence[Held], *, allow_gaps: bool) -> list[ImportStep]:
    """Plans the import of files that the journal already contains or that follow its end. Raises TransferRefused for
    any other file.

    The journal may contain part of a file, if an import was interrupted. In that case, the rest of the file is written.
    """
    steps: list[ImportStep] = []
    end = held[-1].last_txid if held else None
    for source in sources:
        there = tuple(
            h for h in held if h.last_txid >= source.first_txid and h.first_txid <= source.last_txid
        )
        if there:
            _check_tiles(source, there)
            next_txid = there[-1].last_txid + 1
            if next_txid <= source.last_txid and there[-1] is not held[-1]:
                raise _does_not_fit(source, there)
        else:
            next_txid = source.first_txid
            _check_follows(source, end, allow_gaps=allow_gaps or (not steps and end is None))
        steps.append(ImportStep(source, there, next_txid if next_txid <= source.last_txid else None))
        end = source.last_txid if end is None else max(end, source.last_txid)
    return steps


def _check_tiles(source: ImportSource, there: Sequence[Held]) -> None:
    begins = [source.first_txid, *(h.last_txid + 1 for h in there[:-1])]
    if [h.first_txid for h in there] != begins or there[-1].last_txid > source.last_txid:
        raise _does_not_fit(source, there)


def _check_follows(source: ImportSource, end: int | None, *, allow_gaps: bool) -> None:
    if end is not None and source.first_txid <= end:
        raise TransferRefused(
            f"{source.name.file} contains edits before the journal's end, txid {end}, that the journal does not have"
        )
    if not allow_gaps and end is not None and source.first_txid != end + 1:
        raise TransferRefused(
            f"txids {end + 1} to {source.first_txid - 1} are missing between the journal and {source.name.file}"
        )


def _does_not_fit(source: ImportSource, there: Sequence[Held]) -> TransferRefused:
    segments = ", ".join(map(str, there))
    return TransferRefused(
        f"{source.name.file} does not end at the same txid as a segment of the journal: {segments}"
    )
