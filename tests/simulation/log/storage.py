"""What `bookie.storage.bookie.Bookie` does with core, log, index and reading, without its threads and its event loop.

The log's writer is the product's, never started: `commit_group` is one turn of its thread. Checkpoints are taken in
the two steps in which the product takes them, so that anything may come between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from bookie.disk.disk import Disk
from bookie.errors import DataDirectoryError
from bookie.index.index import Index
from bookie.index.ledger_state import LedgerState
from bookie.log import segments
from bookie.log.format import Record, position_of
from bookie.log.records import position_end
from bookie.log.replay import replay
from bookie.log.writer import LogWriter, Written
from bookie.storage import reading
from bookie.storage.core import Answer, BookieCore, Effect, Write, remember
from bookie.storage.frames import SegmentFiles
from bookie.storage.reading import EntryPage
from bookie.wire import Frame, ReadRequest, Status

from .shelf import forget_memory

OnAnswer = Callable[[Status, str], None]


class Watch(Protocol):
    """Who looks on from outside."""

    def submitted(self, record: Record) -> None:
        """The core wants this record written."""
        ...

    def replayed(self, record: Record, position: int) -> None:
        """A start has found this record, and will serve it."""
        ...

    def durable(self, record: Record, position: int, size: int) -> None:
        """The log says that this record is on disk."""
        ...


class Storage:
    """One life of a bookie's process. Raises DamagedLog, DataDirectoryError or OSError where it cannot start."""

    def __init__(self, disk: Disk, index: Index, incarnation: str, watch: Watch) -> None:
        self._watch = watch
        self._incarnation = incarnation
        self._files = SegmentFiles(disk)
        self._states: dict[int, LedgerState] = {}
        self._changed: set[int] = set()
        self.core = BookieCore(self.state_of)
        self._checkpoint: tuple[int, list[tuple[int, bytes]]] | None = None
        self.while_reading: Callable[[], None] = _nothing
        self.index = index
        forget_memory(index)
        if not segments.numbers(disk):  # as directory.check_parts does
            raise DataDirectoryError("the log holds no segment")
        self._position = self.index.checkpoint_position
        following = self._replay(disk)
        self.log = LogWriter(
            disk,
            self._incarnation,
            following >> 32,
            on_durable=self._on_durable,
            on_written=self._on_written,
            on_refused=self._on_refused,
            on_failure=self._on_failure,
        )
        self.begin_checkpoint()
        self.commit_checkpoint()

    # --- requests -------------------------------------------------------------------------------

    def append(self, frame: Frame, ticket: Waiting) -> None:
        self._perform(self.core.append(frame, ticket))

    def fence(self, ledger_id: int, ticket: Waiting, verifier: bytes) -> None:
        self._perform(self.core.fence(ledger_id, ticket, verifier))

    def _perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Write(record, ticket, deferred_sync):
                    self._watch.submitted(record)
                    self.log.submit(record, ticket, deferred_sync=deferred_sync)
                case Answer(ticket, status, detail):
                    _answer(ticket, status, detail)

    def state_of(self, ledger_id: int) -> LedgerState:
        state = self._states.get(ledger_id)
        if state is None:
            state = self._states[ledger_id] = self.index.ledger(ledger_id) or LedgerState(ledger_id)
        return state

    def page(self, request: ReadRequest) -> EntryPage:
        """`while_reading` happens where the product goes from its event loop to a thread."""
        ledger_id, first, last = request.ledger_id, request.first_entry, request.last_entry
        recent = self.index.recent_holding(ledger_id, first, last)
        self.while_reading()
        places, through = self.index.page(ledger_id, first, last, recent, request.bytes_max)
        asked = places, ledger_id, first, through, request.bytes_max
        return reading.read_page(self._files, *asked, whole_frames=request.whole_frames)

    # --- the log --------------------------------------------------------------------------------

    @property
    def waits_for_disk(self) -> int:
        """Records that are not reported durable."""
        return self.log.waiting + len(self.log._unsynced)

    @property
    def has_group(self) -> bool:
        """Whether some record is not even written yet."""
        return bool(self.log.waiting)

    def commit_group(self) -> None:
        """One turn of the log's thread: the next group, or where nothing waits what an overdue sync covers.

        Any OSError means that the log can be written no more (rule B1).
        """
        self.log._commit(self.log._next_group() or () if self.has_group else ())

    def _on_durable(self, written: Sequence[Written], next_position: int) -> None:
        for item in written:
            self._watch.durable(item.record, item.position, item.size)
            self._note(item.record, item.position, item.size)
            ticket = item.ticket if isinstance(item.ticket, Waiting) else None
            self._perform(self.core.on_disk(item.record, ticket and ticket.once()))
        self._position = next_position

    def _on_written(self, written: Sequence[Written]) -> None:
        for item in written:
            assert isinstance(item.ticket, Waiting)
            ticket = item.ticket.once()
            assert ticket is not None
            self._perform(self.core.written(ticket))

    def _on_refused(self, refused: Sequence[tuple[object, Record]], error: OSError) -> None:
        for ticket, _ in refused:
            assert isinstance(ticket, Waiting)
            ticket.once()
        self._perform(self.core.refused(refused, f"the bookie's disk takes no more: {error.strerror}"))

    def _on_failure(self, error: Exception) -> None:
        raise AssertionError("only the log's thread reports a failure") from error

    def _note(self, record: Record, position: int, size: int) -> None:
        self._changed.add(record.ledger_id)
        self.index.apply(record, position, size)

    def _replay(self, disk: Disk) -> int:
        """Applies the log behind the checkpoint; returns the position of the segment to write next."""
        replayed = []
        for found in replay(disk, self._incarnation, self._position):
            remember(self.state_of(found.record.ledger_id), found.record)
            self._note(found.record, found.position, found.header.record_bytes)
            self._position = position_end(found)
            replayed.append(found)
        for found in replayed:  # only now all of it is on disk
            self._watch.replayed(found.record, found.position)
        numbers = segments.numbers(disk)
        if not numbers:
            return position_of(0, 0)
        following = numbers[-1] if segments.is_empty(disk, numbers[-1]) else numbers[-1] + 1
        self._position = max(self._position, position_of(following, 0))
        return position_of(following, 0)

    # --- the checkpoint -------------------------------------------------------------------------

    @property
    def has_checkpoint(self) -> bool:
        """Whether one has begun that does not stand yet."""
        return self._checkpoint is not None

    def begin_checkpoint(self) -> None:
        """Decides what the next checkpoint holds: everything reported so far."""
        if self._checkpoint is None and (self._changed or self.index.recent_frames):
            self.index.begin_checkpoint()
            changed, self._changed = self._changed, set()
            rows = [(ledger_id, self._states[ledger_id].encode()) for ledger_id in sorted(changed)]
            self._checkpoint = self._position, rows

    def commit_checkpoint(self) -> None:
        """What was begun is in the index, on its disk."""
        if self._checkpoint is not None:
            self.index.commit_checkpoint(*self._checkpoint)
            self.index.end_checkpoint()
            self._checkpoint = None


class Waiting:
    """A request that waits for the disk; it is answered once."""

    __slots__ = ("answer", "is_answered")

    def __init__(self, answer: OnAnswer) -> None:
        self.answer = answer
        self.is_answered = False

    def once(self) -> Waiting | None:
        """The ticket, unless it has its answer already."""
        if self.is_answered:
            return None
        self.is_answered = True
        return self


def _answer(ticket: object, status: Status, detail: str) -> None:
    assert isinstance(ticket, Waiting)
    ticket.answer(status, detail)


def _nothing() -> None:
    """Nothing happens."""
