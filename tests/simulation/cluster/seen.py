"""What the bookies of a run do, watched from outside: the real classes are wrapped, and tell the checkers.

B1      what the log calls durable stands on the platter, whatever crash may come
B2, R1  a bookie that comes back holds what it held, and its fences
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from bookie.index.local_ledger_state import Fence
from bookie.log.group_commit import Written
from bookie.serving.daemon import RunningBookie
from bookie.storage import bookie as bookie_module
from bookie.storage.bookie import Bookie
from bookie.storage.page_reader import read_page
from bookie.wire import NO_ENTRY, LacReply, LacRequest, LacStatement, Status
from bookie.wire.messages import Frame
from ledgers.writing.write_handle import WriteHandle
from metadata.records.ledger_record import BookieRef
from tests.bookie.durable_records import is_durable
from tests.simulation.engine.processes import Process
from tests.simulation.engine.world import Violation
from tests.simulation.shells.metadata import VirtualStore
from tests.simulation.shells.watch import WatchedLedger
from tests.simulation.upkeep.ledgers import is_placed
from tests.simulation.upkeep.log_turns import SteppedLogWriter

from .site import ClusterSite

if TYPE_CHECKING:
    from .host import Host

LAST = 2**62
PAGE_BYTES = 1 << 24


class Seen:
    """Tells the watched ledgers what happens at the bookies."""

    def __init__(self, site: ClusterSite) -> None:
        self.site = site
        self._stores: list[tuple[Process | None, VirtualStore]] = []

    # --- the metadata of each process -----------------------------------------------------------

    def opened(self, process: Process | None, store: VirtualStore) -> None:
        self._stores.append((process, store))

    def stores_of(self, process: Process) -> None:
        """The process is gone: nothing of it reaches the metadata any more."""
        for one, store in self._stores:
            if one is process:
                store.end()

    # --- the log --------------------------------------------------------------------------------

    def durable(self, host: Host, ref: BookieRef, written: Sequence[Written]) -> None:
        """The log says that these are on disk."""
        for item in written:
            if not is_durable(host.machine.disk, item.record, item.position, item.size):
                self.site.violated(Violation("B1", f"{ref} calls {item.record} durable, and it is not"))
            ledger_id, columns = item.record.ledger_id, item.record.columns
            if ledger_id < 0 or columns is None:
                continue
            is_ours = bool(getattr(item.ticket, "is_ours", False))
            with self._noting():
                self.site.watch[ledger_id].stored(ref, columns, recovery=item.record.recovery or is_ours)

    def told(self, frame: Frame) -> None:
        """A writer's frame has come, and what it says is confirmed may be told to readers."""
        with self._noting():
            self.site.watch[frame.ledger_id].told(frame.last_add_confirmed)

    def confirmed(self, writer: WriteHandle) -> None:
        """A writer says how far it has got, whoever has made it."""
        with self._noting():
            self.site.watch[writer.ledger_id].confirmed(writer.last_add_confirmed)

    def tells_lac(self, ref: BookieRef, ledger_id: int, told: LacStatement | None) -> None:
        with self._noting():
            self.site.watch[ledger_id].checker.lac_answered(ref, told.last_entry if told else NO_ENTRY)

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """The product would take it for a fault of its own."""
        try:
            yield
        except Violation as violation:
            self.site.violated(violation)

    def came_back(self, host: Host, running: RunningBookie) -> None:
        """It serves from now on, also what it had on disk when it died, and told nobody of."""
        self.holds_what_it_had(host, running)
        ref = BookieRef(running.cookie.bookie_id, running.cookie.incarnation)
        for watched in self.site.watch:
            held, _ = _held(running.bookie, watched.ledger_id)
            watched.checker._had.setdefault(ref, set()).update(held)

    def holds_what_it_had(self, host: Host, running: RunningBookie) -> None:
        """All of it, or it says of what is missing that it cannot vouch for it (R6)."""
        ref = BookieRef(running.cookie.bookie_id, running.cookie.incarnation)
        for watched in self.site.watch:
            if not watched.is_deleted:
                self._is_as_before(running.bookie, ref, watched)

    def _is_as_before(self, bookie: Bookie, ref: BookieRef, watched: WatchedLedger) -> None:
        checker, ledger_id = watched.checker, watched.ledger_id
        state = bookie.states.peek(ledger_id)
        if ref in checker._fenced and state.fence is not Fence.DURABLE and not state.limbo:
            self.site.violated(Violation("R1", f"{ref} has forgotten its fence of ledger {ledger_id}"))
        owed = {n for n in checker._had.get(ref, ()) if _is_placed(watched, n, ref)}
        if not owed or state.limbo:
            return
        held, damaged = _held(bookie, ledger_id)
        if missing := owed - held - damaged:
            self.site.violated(
                Violation("B2", f"{ref} has forgotten {sorted(missing)} of ledger {ledger_id}")
            )

    def not_whole(self, watched: WatchedLedger, running: Mapping[BookieRef, RunningBookie]) -> str:
        """Why a closed ledger lacks a copy of something, if it does."""
        record = watched.record
        for fragment, last in record.spans():
            for position, ref in enumerate(fragment.ensemble):
                if fragment.lacking_at(position) is not None:
                    return f"{fragment} lacks something"
                if ref not in running:
                    return f"{ref} of {fragment} does not run"
                owed = {
                    n for n in range(fragment.first_entry, (last or 0) + 1) if _is_placed(watched, n, ref)
                }
                with self.site.host_loop.still():
                    held, _ = _held(running[ref].bookie, record.ledger_id)
                if last != -1 and owed - held:
                    return f"{ref} lacks {sorted(owed - held)} of ledger {record.ledger_id}"
        return ""


def _held(bookie: Bookie, ledger_id: int) -> tuple[set[int], set[int]]:
    """The entries that the bookie can read, and those that it knows to be damaged."""
    recent = bookie.index.recent_holding(ledger_id, 0, LAST)
    places, through = bookie.index.page(ledger_id, 0, LAST, recent, PAGE_BYTES)
    page = read_page(bookie.files, places, ledger_id, 0, through, PAGE_BYTES)
    damaged = {n for one in page.damaged for n in range(one.first_entry, one.last_entry + 1)}
    return set(page.columns.ids), damaged


def _is_placed(watched: WatchedLedger, entry_id: int, ref: BookieRef) -> bool:
    """Whether the metadata places this entry there. Beyond the end of a closed ledger nothing is."""
    record = watched.record
    if watched.checker.was_dropped and record.is_on_no_bookie:
        return False  # it has been in the object store only, and is still to be copied back
    is_beyond = record.last_entry is not None and entry_id > record.last_entry
    return not is_beyond and is_placed(record, entry_id, ref)


# --- the real classes, wrapped ------------------------------------------------------------------


class WatchedWriter(SteppedLogWriter):
    """Says what it calls durable, before anybody else hears of it."""

    on_report: Callable[[Sequence[Written]], None]

    def _report_durable(self) -> list[Written]:
        synced = self._appender.synced_position
        durable = [written for written in self._unsynced if written.position < synced]
        if durable:
            self.on_report(durable)
        return super()._report_durable()


@contextmanager
def watched(seen: Seen, host: Callable[[], Host]) -> Iterator[None]:
    """While it lasts every bookie and every writer tells what it does. `host` is where the present code runs."""
    begin_log, append, fence = Bookie._begin_log, Bookie.append, Bookie.fence
    lac, answered = Bookie.last_add_confirmed, WriteHandle._answered

    def begins_log(self: Bookie, *arguments: Any) -> None:
        begin_log(self, *arguments)
        assert isinstance(self._log, WatchedWriter)
        self._log.on_report = lambda durable: seen.durable(host(), _ref_of(self), durable)

    def answers(self: WriteHandle, last_entry: int) -> None:
        seen.confirmed(self)
        answered(self, last_entry)

    def appends(self: Bookie, frame: Frame, *how: Any) -> None:
        if not frame.recovery:
            seen.told(frame)
        append(self, frame, *how)

    async def fences(self: Bookie, ledger_id: int, *who: bytes) -> tuple[Status, str]:
        status, detail = await fence(self, ledger_id, *who)
        if status is Status.OK:
            seen.site.watch[ledger_id].checker.fence_answered(_ref_of(self))
        return status, detail

    async def tells_lac(self: Bookie, request: LacRequest, *hurried: Any) -> LacReply:
        reply = await lac(self, request, *hurried)
        if reply.status is Status.OK and not host().machine.has_lost:
            seen.tells_lac(_ref_of(self), request.ledger_id, reply.last_add_confirmed)
        return reply

    with ExitStack() as stack:
        stack.enter_context(patch.object(bookie_module, "BookieLogWriter", WatchedWriter))
        stack.enter_context(patch.object(Bookie, "_begin_log", begins_log))
        stack.enter_context(patch.object(Bookie, "append", appends))
        stack.enter_context(patch.object(Bookie, "fence", fences))
        stack.enter_context(patch.object(Bookie, "last_add_confirmed", tells_lac))
        stack.enter_context(patch.object(WriteHandle, "_answered", answers))
        yield


def _ref_of(bookie: Bookie) -> BookieRef:
    """Each directory is named after the bookie it was formatted for."""
    return BookieRef(bookie._config.data_directory.name, bookie.incarnation)
