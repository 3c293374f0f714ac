"""Imports a directory of segment files into a journal.

Writes only verified edits, and compares edits that the journal already has with those in the files. An interrupted
import can be resumed by running it again: the segment that was being written ends at the point of interruption, and
another segment follows.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

from ..aio import QuorumJournalManager
from ..batch import Batch
from ..edits import NEWEST_LAYOUT
from ..manager.output_stream import EditLogOutputStream
from ..requests import NamespaceInfo
from .errors import TransferRefused
from .files.names import LeftOut, SegmentName, listing
from .files.segment_file import CheckedSegment, batches_of, checked_segment
from .files.version_file import VERSION, read_version
from .inspection.inspector import JournalInspector


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
    """A segment file that contains edits, with the txids of these edits."""

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


BATCH_BYTES = 512 * 1024
"""The size of a batch of edits, the same as that of a NameNode's buffer. A larger op forms a separate batch."""

UNDER_WAY_BYTES_MAX = 4 * 1024 * 1024
"""Maximum total size of batches sent but not confirmed; well below the size that fills a slow acceptor's queue."""

OnBytes = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """Options of an import. `finalize`: also end the last segment if its file is in progress. `allow_gaps`: txids may
    be missing.

    `take_over`: if a segment is in progress, fence its writer. `from_txid`: skip files that end before this txid.
    """

    finalize: bool = True
    allow_gaps: bool = False
    take_over: bool = False
    from_txid: int = 0


@dataclass(slots=True)
class Imported:
    """The result of an import. `segments`, `ops` and `bytes` count what was written; `segments_there` and `ops_there`
    count what the journal already had. `left_out` lists the files that contain none of the journal's edits."""

    formatted: bool = False
    segments: int = 0
    ops: int = 0
    bytes: int = 0
    segments_there: int = 0
    ops_there: int = 0
    last_txid: int | None = None
    left_in_progress: int | None = None
    notes: list[str] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)


def find_current(directory: Path) -> Path:
    """Returns the directory that contains the segment files: the given directory or its subdirectory `current`."""
    below = directory / "current"
    return below if below.is_dir() else directory


def bytes_in(directory: Path) -> int:
    """Returns the total size of the segment files in the directory, which is the minimum that an import has to read."""
    folder = find_current(directory)
    return sum((folder / s.file).stat().st_size for s in _listed(folder)[0])


async def import_directory(
    journal: QuorumJournalManager,
    inspector: JournalInspector,
    directory: Path,
    options: ImportOptions,
    on_bytes: OnBytes = lambda _: None,
) -> Imported:
    """Writes the edits of the directory to the journal. `journal` becomes the writer only if there are edits to write.

    Raises JournalError, OSError, and TransferRefused, which states the file and its problem. It is safe to repeat the
    call.
    """
    work = _Import(journal, inspector, find_current(directory), options, on_bytes)
    await work.run()
    return work.done


class _Import:
    def __init__(
        self,
        journal: QuorumJournalManager,
        inspector: JournalInspector,
        folder: Path,
        options: ImportOptions,
        on_bytes: OnBytes,
    ) -> None:
        self.journal = journal
        self.inspector = inspector
        self.folder = folder
        self.options = options
        self.on_bytes = on_bytes
        self.done = Imported()

    async def run(self) -> None:
        sources = self._sources()
        await self._agree_on_namespace()
        steps = await self._plan(sources)
        if self._has_work(steps):
            await self._become_writer()
            steps = await self._plan(sources)  # the segment that was in progress now has an end
        for step in steps:
            await self._take(step, is_last=step is steps[-1])
        await self._note_laggards()

    def _sources(self) -> list[ImportSource]:
        """Returns the files that contain edits, after verifying that their txids are contiguous. Reads only files in
        progress, to find their txids."""
        names, self.done.left_out = _listed(self.folder)
        sources: list[ImportSource] = []
        for name in names:
            last = name.last_txid or self._end_of(name)
            if last is None:
                self.done.left_out.append(LeftOut(name.file, "it holds no edits yet"))
            elif last >= self.options.from_txid:
                sources.append(ImportSource(name, last))
        if not sources:
            raise TransferRefused(f"{self.folder} holds no edits to import")
        if not self.options.allow_gaps:
            check_gaps(sources)
        return sources

    def _end_of(self, name: SegmentName) -> int | None:
        checked = checked_segment(self.folder, name)
        return None if checked is None else checked.last_txid

    async def _agree_on_namespace(self) -> None:
        """Formats the journal if it does not exist. If it exists, it must have the same namespace."""
        theirs = read_version(self.folder)
        if not await self.journal.is_formatted():
            if theirs is None:
                raise TransferRefused(f"{self.folder} has no {VERSION}: format the journal manually first")
            await self.journal.format(theirs)
            self.done.formatted = True
        elif theirs is not None:
            _check_same(theirs, await self.journal.namespace(), self.folder)

    async def _plan(self, sources: list[ImportSource]) -> list[ImportStep]:
        streams = await self.journal.select_input_streams(0, in_progress_ok=True, gaps_ok=True)
        held = [Held(s.first_txid, s.last_txid, s.is_in_progress) for s in streams]
        return plan(sources, held, allow_gaps=self.options.allow_gaps)

    def _has_work(self, steps: list[ImportStep]) -> bool:
        for step in steps:
            in_progress = any(held.in_progress for held in step.held)
            if step.from_txid is not None or (in_progress and self._is_ended(step, step is steps[-1])):
                return True
        return False

    def _is_ended(self, step: ImportStep, is_last: bool) -> bool:
        """Returns whether the journal's segment is to be finalized, which is required if other segments follow."""
        return step.source.name.last_txid is not None or self.options.finalize or not is_last

    async def _become_writer(self) -> None:
        in_progress = await self.inspector.in_progress()
        if in_progress is not None and not self.options.take_over:
            raise TransferRefused(
                f"{in_progress}, is in progress: its writer may be alive, and an import would fence it; "
                f"take over if it is dead"
            )
        recovered = await self.journal.recover_unfinalized_segments()
        if in_progress is not None and recovered is not None:
            self.done.notes.append(f"segment {recovered.start_txid} was ended at txid {recovered.end_txid}")

    async def _take(self, step: ImportStep, *, is_last: bool) -> None:
        name = step.source.name
        checked = checked_segment(self.folder, name)
        if checked is None or checked.last_txid < step.source.last_txid:
            raise TransferRefused(f"{name.file} was truncated during the import")
        if checked.last_txid > step.source.last_txid:
            checked = checked.up_to(step.source.last_txid)
        await self._check_layout(checked, name)
        if step.held:
            await self._compare(checked, step)
        if step.from_txid is not None:
            await self._write(checked, step.from_txid, is_ended=self._is_ended(step, is_last))
        else:
            self.done.segments_there += 1
        self.done.last_txid = checked.last_txid
        if checked.torn is not None:
            self.done.notes.append(f"{name.file} ends with txid {checked.last_txid}: {checked.torn}")

    async def _check_layout(self, checked: CheckedSegment, name: SegmentName) -> None:
        """Raises TransferRefused for a layout newer than any known one. Such a layout must be due to damage, because no
        checksum covers a segment's header."""
        namespace = await self.journal.namespace()
        if checked.layout_version < min(NEWEST_LAYOUT, namespace.layout_version):
            raise TransferRefused(
                f"{name.file} claims layout {checked.layout_version}, newer than the journal's "
                f"{namespace.layout_version}"
            )

    async def _compare(self, checked: CheckedSegment, step: ImportStep) -> None:
        """Checks that the journal's edits equal the file's, byte for byte."""
        offset = 0
        end = step.held[-1].last_txid
        async with aclosing(self._held_batches(checked, step)) as batches:
            async for batch in batches:
                following = offset + len(batch.records)
                if checked.records[offset:following] != batch.records:
                    raise TransferRefused(
                        f"{step.source.name.file}: the journal has different edits at txids {batch.first_txid} "
                        f"to {batch.last_txid}"
                    )
                offset = following
                self.on_bytes(len(batch.records))
        self.done.ops_there += end - checked.first_txid + 1

    async def _held_batches(self, checked: CheckedSegment, step: ImportStep) -> AsyncGenerator[Batch, None]:
        first, last = step.held[0].first_txid, step.held[-1].last_txid
        for stream in await self.journal.select_input_streams(first, in_progress_ok=True, gaps_ok=True):
            if stream.first_txid > last:
                return
            async with aclosing(stream.batches()) as batches:
                async for batch in batches:
                    if batch.first_txid <= last:
                        yield batch
            if stream.layout_version != checked.layout_version:
                raise TransferRefused(
                    f"{step.source.name.file} has layout {checked.layout_version}, and the journal's segment "
                    f"{stream.segment_txid} has {stream.layout_version}"
                )

    async def _write(self, checked: CheckedSegment, from_txid: int, *, is_ended: bool) -> None:
        records = checked.from_txid(from_txid)
        async with await self.journal.start_log_segment(from_txid, checked.layout_version) as out:
            await self._write_batches(out, records, from_txid)
        if is_ended:
            await self.journal.finalize_log_segment(from_txid, checked.last_txid)
        else:
            await self.inspector.until_seen(from_txid, checked.last_txid)
            self.done.left_in_progress = from_txid
        if from_txid != checked.first_txid:
            self.done.notes.append(f"segment {from_txid} continues an interrupted import")
        self.done.segments += 1
        self.done.ops += checked.last_txid - from_txid + 1
        self.done.bytes += len(records)

    async def _note_laggards(self) -> None:
        """Notes the acceptors that lack segments. A majority is enough to continue, but nothing updates the other
        acceptors after the import has ended."""
        if self.done.segments == 0 or self.done.left_in_progress is not None:
            return
        streams = await self.journal.select_input_streams(0, gaps_ok=True)
        for name in await self.inspector.lacking(streams[-1].first_txid):
            self.done.notes.append(f"acceptor {name} lacks segments: it was unavailable, or too slow")

    async def _write_batches(self, out: EditLogOutputStream, records: memoryview, from_txid: int) -> None:
        under_way: deque[tuple[Batch, asyncio.Future[int]]] = deque()
        size = 0
        for batch in batches_of(records, from_txid, BATCH_BYTES):
            while under_way and size + len(batch.records) > UNDER_WAY_BYTES_MAX:
                size -= await self._confirmed(*under_way.popleft())
            out.write_raw(batch.records, batch.num_txns)
            out.set_ready_to_flush()
            under_way.append((batch, await out.flush_async()))
            size += len(batch.records)
        while under_way:
            await self._confirmed(*under_way.popleft())

    async def _confirmed(self, batch: Batch, flush: asyncio.Future[int]) -> int:
        await flush
        self.on_bytes(len(batch.records))
        return len(batch.records)


def _listed(folder: Path) -> tuple[list[SegmentName], list[LeftOut]]:
    """Returns the segments of a directory. Raises TransferRefused if one is not a regular file: reading a pipe would
    block forever."""
    found = listing(path.name for path in folder.iterdir())
    for segment in found.segments:
        if not (folder / segment.file).is_file():
            raise TransferRefused(f"{folder / segment.file} is not a regular file")
    return list(found.segments), list(found.left_out)


def _check_same(theirs: NamespaceInfo, ours: NamespaceInfo, folder: Path) -> None:
    for name in ("namespace_id", "cluster_id", "layout_version"):
        if getattr(theirs, name) != getattr(ours, name):
            raise TransferRefused(
                f"{folder / VERSION} has {name.replace('_', ' ')} {getattr(theirs, name)}, "
                f"but the journal has {getattr(ours, name)}"
            )
