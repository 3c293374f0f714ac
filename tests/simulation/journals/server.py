"""One process that serves an acceptor: the product's programs, effect by effect, and what it does with batches."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from functools import partial
from typing import Any

from metadata.records.journal_store import VersionedState
from qjm_compat.acceptor.edits_cache import EditsCache
from qjm_compat.acceptor.programs.acceptor_effects import CreateLedger, Effect, EndLedger, SwapState
from qjm_compat.acceptor.programs.acceptor_memory import CurrentSegment, Memory
from qjm_compat.acceptor.programs.edit_log_manifest import place_of
from qjm_compat.acceptor.programs.machine import CONCURRENT, RESETS, program
from qjm_compat.acceptor.programs.segment_programs import admit_edits
from qjm_compat.batch import Batch
from qjm_compat.errors import (
    BadJournalState,
    JournalError,
    JournalOutOfSync,
    JournalUnavailable,
    StaleEpoch,
)
from qjm_compat.requests import (
    AcceptRecovery,
    GetJournaledEdits,
    NewEpoch,
    PrepareRecovery,
    PrepareReply,
    Request,
    SendEdits,
)
from tests.simulation.engine.chance import key_of
from tests.simulation.engine.world import Violation

from .disk import Disk
from .followers import Followers, Reply
from .ledgers import Ledger, Pending
from .probes import JournalProbe, SyncProbe
from .site import Host, Site, exponential, numbered, salted

JOURNAL = "ns1"
EFFECT_SECONDS = 0.4
SLOW_SECONDS = 40.0
SWAPS_OF_BATCHES_MAX = 2
"""Swaps that the batches of one process may lead to: only one that its acceptor has not heard of before does."""


class Call:
    """One call under way. `is_in_doubt`: something it did failed, or nobody told it."""

    __slots__ = ("is_in_doubt", "request", "steps")

    def __init__(self, request: Request[Any], steps: Any) -> None:
        self.request = request
        self.steps = steps
        self.is_in_doubt = False


class Server:
    """Calls go one at a time, those that change nothing beside them, as in `Journal`."""

    def __init__(self, site: Site, host: Host, disk: Disk) -> None:
        self.site = site
        self.host = host
        self.disk = disk
        self.memory = Memory(JOURNAL)
        self.cache = EditsCache(site.plan.figures.cache)
        self.calls: set[Call] = set()
        self._followers = Followers(site, host, disk, self.cache, self._place)
        self._name = disk.name if host.name == disk.name else f"{disk.name} in {host.name}"
        self._queue: deque[tuple[Request[Any], Reply]] = deque()
        self._is_busy = False
        self._key = key_of(site.plan.seed, "effects", host.name, disk.name)
        self._done = 0
        self._handles: dict[int, Ledger] = {}
        self._lands_at = 0.0
        self._swaps_of_batches = 0
        host.died.append(self.died)

    def receive(self, request: Request[Any], reply: Reply) -> None:
        kind = type(request)
        if kind in CONCURRENT:
            self._begin(request, program(self.memory, request), reply)
        elif isinstance(request, GetJournaledEdits):
            self._followers.answer(request, reply)
        else:
            self._queue.append((request, reply))
            if not self._is_busy:
                self._next()

    def run(self, request: Any, steps: Any, done: Reply) -> None:
        """A program of this process's own; `request` says what it is."""
        self._begin(request, steps, done)

    def close(self) -> None:
        """Lets go, and gives up what is under way, as `Journal.close` and `Logger.close` do."""
        self.memory.open = None
        self._handles.clear()
        self._queue.clear()
        for call in self.calls:
            call.is_in_doubt = True
        self.calls.clear()

    def died(self) -> None:
        """Nothing of this process goes on; what its calls had made is not known to anybody."""
        for call in self.calls:
            call.is_in_doubt = True
            self.site.reached(JournalProbe.CRASHED_IN_CALL)
            if isinstance(call.request, AcceptRecovery):
                self.site.reached(JournalProbe.CRASHED_IN_ACCEPT)

    def _place(self, request: GetJournaledEdits, done: Reply) -> None:
        self._begin(request, place_of(self.memory, request.since_txid), done)

    # --- one at a time ------------------------------------------------------------------------------

    def _next(self) -> None:
        self._is_busy = bool(self._queue)
        if self._is_busy:
            request, reply = self._queue.popleft()
            if isinstance(request, SendEdits):
                steps: Any = admit_edits(self.memory, request)
                self._begin(request, steps, partial(self._admitted, request, reply))
            else:
                steps = program(self.memory, request)
                self._begin(request, steps, partial(self._answered, request, reply))

    def _answered(self, request: Request[Any], reply: Reply, answer: Any, error: JournalError | None) -> None:
        if error is None and isinstance(request, NewEpoch | PrepareRecovery):
            epoch = request.epoch if isinstance(request, NewEpoch) else request.info.epoch
            self.site.checks.promised(self.disk, epoch)
            if isinstance(answer, PrepareReply) and answer.accepted_in_epoch is not None:
                self.site.reached(JournalProbe.ACCEPTED_AGAIN)
        if error is None and type(request) in RESETS:
            self.cache.clear()
        reply(answer, error)
        self._next()

    def _begin(self, request: Request[Any], steps: Any, done: Reply) -> None:
        call = Call(request, steps)
        self.calls.add(call)
        self._advance(call, done, None, None)

    def _advance(self, call: Call, done: Reply, outcome: Any, error: JournalError | None) -> None:
        """To the next effect, or to the end of the call."""
        try:
            effect = call.steps.throw(error) if error is not None else call.steps.send(outcome)
        except StopIteration as end:
            self._end(call, done, end.value, None)
        except JournalError as failure:
            self._end(call, done, None, failure)
        else:
            self._done += 1
            bits = numbered(self._key, self._done)
            delay = EFFECT_SECONDS * exponential(bits)
            slow = self.site.plan.figures.slow
            if slow and not self.site.is_calm and salted(bits, 1) < slow:
                delay += SLOW_SECONDS * salted(bits, 2)
            self.site.within(self.host, delay, self._perform, call, done, effect, bits)

    def _end(self, call: Call, done: Reply, answer: Any, error: JournalError | None) -> None:
        self.calls.discard(call)
        if error is not None:
            self.site.note(
                "%s at %s: %s %r", type(call.request).__name__, self._name, type(error).__name__, error
            )
            if isinstance(error, JournalOutOfSync) and "IPC serial" in str(error):
                self.site.reached(JournalProbe.CALL_AGAIN)
            if isinstance(error, BadJournalState) and "joined the journal while" in str(error):
                self.site.reached(SyncProbe.CANNOT_TELL)
        else:
            self.site.note("%r at %s: %r", call.request, self._name, answer)
        done(answer, error)

    # --- effects ------------------------------------------------------------------------------------

    def _perform(self, call: Call, done: Reply, effect: Effect, bits: int) -> None:
        if call not in self.calls:
            return
        figures = self.site.plan.figures
        if not self.site.is_calm:
            if figures.fails and salted(bits, 3) < figures.fails:
                call.is_in_doubt = True
                self._advance(call, done, None, JournalUnavailable(f"{type(effect).__name__} failed"))
                return
            if figures.unknown and salted(bits, 4) < figures.unknown:
                self._perform_untold(call, done, effect, bits)
                return
        self._count(call, effect)
        try:
            outcome = self.disk.perform(effect, call)
        except JournalError as error:
            self._advance(call, done, None, error)
            return
        if isinstance(effect, CreateLedger):
            self._handles[outcome] = self.disk.ledgers[outcome]
        elif isinstance(effect, EndLedger):
            self._handles.pop(effect.ledger_id, None)
        self._advance(call, done, outcome, None)

    def _perform_untold(self, call: Call, done: Reply, effect: Effect, bits: int) -> None:
        """It happens, now or later, and nobody knows; or a swap is known as one's own, unless it was built upon."""
        call.is_in_doubt = True
        if isinstance(effect, SwapState) and salted(bits, 5) < 0.4:
            self.site.reached(JournalProbe.SWAP_LATE)
            self.site.within(self.site.outside, 20 * salted(bits, 6), self._perform_late, effect, call)
        else:
            try:
                outcome = self.disk.perform(effect, call)
            except JournalError:
                outcome = None
            if isinstance(effect, SwapState):
                self.site.reached(JournalProbe.SWAP_UNKNOWN)
                if salted(bits, 7) < 0.5:
                    delay = 5 * salted(bits, 8)
                    self.site.within(self.host, delay, self._recognised, call, done, outcome)
                    return
        self._advance(call, done, None, JournalUnavailable(f"no answer to {type(effect).__name__}"))

    def _perform_late(self, effect: Effect, call: Call) -> None:
        with suppress(JournalUnavailable):  # the disk was lost meanwhile
            self.disk.perform(effect, call)

    def _recognised(self, call: Call, done: Reply, outcome: VersionedState | None) -> None:
        """Rule M1: read back, one's own swap is known by its nonce; one that was built upon looks like another's."""
        if outcome is not None and self.disk.state is not outcome:
            self.site.reached(JournalProbe.SWAP_OVERTAKEN)
            outcome = None
        self._advance(call, done, outcome, None)

    def _count(self, call: Call, effect: Effect) -> None:
        if isinstance(effect, SwapState) and isinstance(call.request, SendEdits):
            self._swaps_of_batches += 1
            if self._swaps_of_batches > SWAPS_OF_BATCHES_MAX:
                raise Violation("swaps", f"{self._name}: batches lead to swap after swap")

    # --- batches ------------------------------------------------------------------------------------

    def _admitted(
        self, request: SendEdits, reply: Reply, segment: CurrentSegment | None, error: JournalError | None
    ) -> None:
        """As `Journal._send_edits`: appended in order, confirmed together."""
        if error is not None or segment is None:
            reply(None, error)
            self._next()
            return
        batch = Batch(
            request.first_txid,
            request.num_txns,
            request.records,
            self.memory.committed_txid,
            request.info.epoch,
        )
        ledger = self._handles.get(segment.ledger_id)
        if ledger is None or ledger.is_broken:
            reply(None, self._aborted(segment, JournalUnavailable("it is not written to from here any more")))
        else:
            self._append(ledger, segment, batch, reply)
            segment.next_txid = batch.last_txid + 1
        self._next()

    def _append(self, ledger: Ledger, segment: CurrentSegment, batch: Batch, reply: Reply) -> None:
        pending = Pending(batch, lambda told: self._confirmed(segment, batch, reply, told))
        ledger.pending.append(pending)
        self._done += 1
        bits = numbered(self._key, self._done)
        self._lands_at = max(self._lands_at, self.site.now + exponential(bits)) + 1e-6
        # What is on its way gets there whether or not its process lives.
        self.site.within(
            self.site.outside,
            self._lands_at - self.site.now,
            self._landed,
            ledger,
            pending,
            bits,
            self.host.life,
        )

    def _landed(self, ledger: Ledger, pending: Pending, bits: int, life: int) -> None:
        was_settled = pending.is_kept is not None
        figures = self.site.plan.figures
        fails = not self.site.is_calm and salted(bits, 3) < figures.fails
        is_kept = ledger.land(pending)
        if fails:
            ledger.is_broken = True
        told = is_kept and not fails and not (was_settled and salted(bits, 4) < 0.5)
        if self.host.life == life:
            if is_kept and not told:
                self.site.reached(JournalProbe.BATCH_IN_DOUBT)
            self.site.within(self.host, 0.0, pending.confirm, told)

    def _confirmed(self, segment: CurrentSegment, batch: Batch, reply: Reply, told: bool) -> None:
        if not told:
            reply(None, self._aborted(segment, StaleEpoch("the ledger was fenced by a later writer")))
            self.site.reached(JournalProbe.WRITER_FENCED)
            return
        segment.durable_txid = max(segment.durable_txid, batch.last_txid)
        self.cache.store(batch, segment.layout_version)
        reply(None, None)

    def _aborted(self, segment: CurrentSegment, error: JournalError) -> JournalError:
        if self.memory.open is segment:
            self.memory.open = None
        return error
