"""A recoverer of a simulated cluster: a shell over the real recovery, as ledgers/recovering/recovery_run.py is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bookie.wire import LacReply, LacRequest, LacStatement, ReadReply, ReadRequest
from ledgers.errors import LedgerError, LedgerRecoveryFailed
from ledgers.protocol.ledger_effects import (
    ChangeRecord,
    Confirm,
    FenceLac,
    FindReplacements,
    Finish,
    ReadFenced,
    Recovered,
    RecoveryEffect,
    StartOver,
)
from ledgers.protocol.ledger_recovery import Recovery
from metadata.records.ledger_record import LedgerRecord, LedgerState
from tests.simulation.cores.probes import Probe
from tests.simulation.cores.site.metadata import Committed, Lost, Outcome, Read

from .lanes import tell
from .process import QUORUM_SECONDS_MAX, Client, Site

PAGE_BYTES = 1024


class Recoverer(Client):
    """Recovers the ledger, and tries again a few times when that fails."""

    def __init__(self, site: Site, name: str, tries: int) -> None:
        super().__init__(site, name)
        self._tries = tries
        self._recovery: Recovery | None = None
        self._met_a_close = False
        self._asking = False
        self._progress_at = 0.0

    @property
    def is_done(self) -> bool:
        return not self._asking

    def begin(self) -> None:
        self._tries -= 1
        self._asking = self._tries >= 0
        if self._asking and self.site.metadata.is_held:
            self._again()
        elif self._asking:
            self.world.note("%s begins", self.name)
            self.site.metadata.read(self.name, self.hears(self._found))

    def _again(self) -> None:
        self._let_go()
        self.later(self.world.stream("again", self.name).uniform(1, 20), self.begin)

    def _end(self, record: LedgerRecord | None) -> None:
        """The ledger is closed like this; or is gone."""
        self._let_go()
        self._asking = False
        if record is None:
            self.world.reached(Probe.DELETED_UNDER_RECOVERY)
            self.world.note("%s ends: there is no such ledger", self.name)
        else:
            self.site.checker.ended(self.name, record)

    def _let_go(self) -> None:
        self.close_lanes()
        self._recovery = None

    def _note_conflict(self, found: Committed | None) -> None:
        super()._note_conflict(found)
        self._met_a_close = found is not None and found.record.is_closed

    # --- marking --------------------------------------------------------------------------------

    def _found(self, read: Read | None) -> None:
        if read is None:
            self._again()
        elif read.found is None:
            self._end(None)
        else:
            self._look_at(read.found)

    def _look_at(self, found: Committed) -> None:
        if found.record.is_closed:
            self._end(found.record)
        elif found.record.state is LedgerState.OPEN:
            marked = found.record.in_recovery()
            self.site.metadata.change(self.name, marked, found.version, self.hears(self._marked))
        else:
            self._recover(found)

    def _marked(self, outcome: Outcome) -> None:
        match outcome:
            case Committed():
                self._look_at(outcome)
            case Lost(found):
                self._found(Read(found))
            case _:
                self._again()

    def _recover(self, found: Committed) -> None:
        self.version = found.version
        self._recovery = machine = Recovery(found.record, self.site.digester)
        if len(found.record.fragments) > 1:
            self.world.reached(Probe.RECOVERY_OF_FRAGMENTS)
        self._progress_at = self.world.now
        self._watch_progress(machine)
        self.perform(machine.start())

    def _watch_progress(self, machine: Recovery) -> None:
        """Gives up a recovery whose write-backs no ack quorum takes."""

        def look() -> None:
            if machine is not self._recovery:
                return None
            if self._progress_at + QUORUM_SECONDS_MAX > self.world.now:
                return self._watch_progress(machine)
            self.world.reached(Probe.RECOVERY_STUCK)
            self.site.check_may_give_up(self.name, self._progress_at)
            return self._failed(LedgerRecoveryFailed(machine.record.ledger_id, "no progress"))

        left = self._progress_at + QUORUM_SECONDS_MAX - self.world.now
        self.later(left + 1e-6, look)

    # --- effects --------------------------------------------------------------------------------

    def machine(self) -> Recovery:
        assert self._recovery is not None
        return self._recovery

    def runs(self, machine: object) -> bool:
        return machine is self._recovery

    def lac_statement(self) -> LacStatement | None:
        return self.machine().frozen_lac

    def perform(self, effects: Sequence[RecoveryEffect]) -> None:
        for effect in effects:
            match effect:
                case FenceLac():
                    self._fence(effect)
                case ReadFenced():
                    self._read(effect)
                case Confirm():
                    self._progress_at = self.world.now
                case ChangeRecord(record):
                    self._close(record)
                case Recovered(record):
                    self._recovered(record)
                case StartOver():
                    self.world.reached(Probe.RECOVERERS_RACED)
                    self.world.note("%s starts over", self.name)
                    self._again()
                case Finish(error):
                    self._failed(error)
                case FindReplacements():
                    self.world.reached(Probe.RECOVERY_CHANGED)
                    self.perform_shared(effect, recovery=True)
                case _:
                    self.perform_shared(effect, recovery=True)

    def _failed(self, error: LedgerError | None) -> None:
        said = str(error)
        self.world.note("%s ends: %s", self.name, said)
        if "answers do not show" in said:
            self.world.reached(Probe.RECOVERY_UNDECIDED)
        elif "could be fenced" in said:
            self.world.reached(Probe.RECOVERY_UNFENCED)
        self._again()

    def _close(self, record: LedgerRecord) -> None:
        last, checker = record.last_entry, self.site.checker
        assert last is not None
        write_back = self.machine().pipeline
        if write_back is None or write_back.last_add_pushed < write_back.record.fragments[-1].first_entry:
            self.world.reached(Probe.RECOVERY_EMPTY)
        if last > checker.confirmed_through:
            self.world.reached(Probe.RECOVERY_KEPT_UNCONFIRMED)
        if checker.stored_through > last:
            self.world.reached(Probe.RECOVERY_CUT_OFF)
        self.change(record)

    def _recovered(self, record: LedgerRecord) -> None:
        self.world.note("%s has recovered to %s", self.name, record.last_entry)
        self.world.reached(Probe.RECOVERY_ADOPTED if self._met_a_close else Probe.RECOVERED)
        for bookie, note in self.machine().end_notes(record):
            tell(self, bookie, record.ledger_id, note, recovery=True)
        self._end(record)

    # --- calls ----------------------------------------------------------------------------------

    def _fence(self, effect: FenceLac) -> None:
        machine = self.machine()
        request = LacRequest(effect.bookie.incarnation, machine.record.ledger_id, fence=True)
        self.begin_waiting("fencing", machine.record.shape.ensemble_size)

        def answered(reply: LacReply | None) -> None:
            if machine is not self._recovery:
                return
            self.end_waiting("fencing")
            if reply is None:
                self.perform(machine.lac_failed(effect.position, "silent"))
            else:
                if self.site.metadata.is_held:
                    reply = replace(reply, vouched_since=0)
                self.perform(machine.lac_answered(effect.position, reply))

        self.call(
            "lac", effect.bookie, lambda bookie, answer: bookie.last_add_confirmed(request, answer), answered
        )

    def _read(self, effect: ReadFenced) -> None:
        machine = self.machine()
        request = ReadRequest(
            effect.bookie.incarnation,
            machine.record.ledger_id,
            effect.first_entry,
            effect.last_entry,
            PAGE_BYTES,
            fence=True,
        )
        self.begin_waiting("reading", machine.record.shape.ensemble_size)

        def answered(reply: ReadReply | None) -> None:
            if machine is not self._recovery:
                return
            self.end_waiting("reading")
            if reply is None:
                self.perform(machine.read_failed(effect.position, "silent"))
            else:
                self._progress_at = self.world.now
                self.perform(machine.read_answered(effect.position, reply))

        self.call("read", effect.bookie, lambda bookie, answer: bookie.read(request, answer), answered)
