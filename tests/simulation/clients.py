"""The clients of a simulated cluster: shells that perform the effects of the real machines of writer and recoverer."""

from __future__ import annotations

from collections.abc import Sequence

from bookie.wire import LacReply, LacStatement, ReadReply, of_payloads
from ledgers.append import AppendPipeline
from ledgers.effects import (
    ChangeRecord,
    Confirm,
    FenceLac,
    Finish,
    ReadFenced,
    Recovered,
    RecoveryEffect,
    StartOver,
)
from ledgers.recovery import Recovery
from metadata.ledger_record import LedgerState

from .process import Client, Site
from .servers import Committed, Lost, Outcome


class Writer(Client):
    """Appends a few batches at random times, then closes, or just stays."""

    def __init__(self, site: Site, created: Committed) -> None:
        super().__init__(site, "writer")
        self._version = created.version
        self._pipeline = AppendPipeline(created.record)
        self._is_closing = False

    def begin(self) -> None:
        self.perform(self._pipeline.start())
        for _ in range(self.site.world.rng.randint(1, 6)):
            self.later(self.site.world.rng.uniform(0, 60), self._append)
        if self.site.world.happens(0.5):
            self.later(self.site.world.rng.uniform(20, 120), self._close)

    def _close(self) -> None:
        self._is_closing = True
        self.perform(self._pipeline.close())

    def _append(self) -> None:
        pipeline, rng = self._pipeline, self.site.world.rng
        if pipeline.has_ended or self._is_closing:
            return
        first = pipeline.last_add_pushed + 1
        payloads = [rng.randbytes(rng.randint(1, 6)) for _ in range(rng.randint(1, 3))]
        for entry_id, payload in enumerate(payloads, first):
            self.site.checker.appended(entry_id, payload)
        self.perform(pipeline.append(of_payloads(first, payloads, self.site.digester.sign(first, payloads))))

    def machine(self) -> AppendPipeline:
        return self._pipeline

    def lac_statement(self) -> LacStatement | None:
        if self._pipeline.last_add_confirmed < 0:
            return None
        return self.site.digester.sign_lac(self._pipeline.last_add_confirmed, self._pipeline.confirmed_length)

    def perform(self, effects: Sequence[RecoveryEffect]) -> None:
        for effect in effects:
            match effect:
                case Confirm(through):
                    self.site.world.note(f"writer confirms {through}")
                    self.site.checker.confirmed(through)
                case ChangeRecord(record):
                    self.change(self._pipeline, record, self._version, self._note_version)
                case Finish(error):
                    self.site.world.note(f"writer ends: {error}")
                    if error is None:
                        self.site.checker.ended("the writer", self._pipeline.record)
                case FenceLac() | ReadFenced() | Recovered() | StartOver():
                    raise AssertionError(f"{effect} is not a writer's")
                case _:
                    self.perform_shared(effect, recovery=False)

    def _note_version(self, version: int) -> None:
        self._version = version


class Recoverer(Client):
    """Recovers the ledger as `ledgers.recover` does, and tries again a few times when it fails."""

    def __init__(self, site: Site, name: str, tries: int) -> None:
        super().__init__(site, name)
        self._tries = tries
        self._version = 0
        self._recovery: Recovery | None = None

    def begin(self) -> None:
        self._tries -= 1
        if self._tries >= 0:
            self.site.world.note(f"{self.name} begins")
            self._read_record()

    def _again(self) -> None:
        for lane in self._lanes.values():
            lane.close()
        self._lanes.clear()
        self.later(self.site.world.rng.uniform(1, 20), self.begin)

    def _read_record(self) -> None:
        self.site.metadata.read(self.name, lambda found: self.deliver(lambda: self._found(found)))

    def _found(self, found: Committed | None) -> None:
        if found is None:
            self._again()
        elif found.record.is_closed:
            self.site.checker.ended(self.name, found.record)
        elif found.record.state is LedgerState.OPEN:
            marked = found.record.in_recovery()
            self.site.metadata.change(
                self.name, marked, found.version, lambda outcome: self.deliver(lambda: self._marked(outcome))
            )
        else:
            self._version = found.version
            self._recovery = Recovery(found.record, self.site.digester)
            self.perform(self._recovery.start())

    def _marked(self, outcome: Outcome) -> None:
        match outcome:
            case Committed():
                self._found(outcome)
            case Lost(found):
                self._found(found)
            case _:
                self._again()

    def machine(self) -> Recovery:
        assert self._recovery is not None
        return self._recovery

    def lac_statement(self) -> LacStatement | None:
        return self.machine().last_add_confirmed

    def perform(self, effects: Sequence[RecoveryEffect]) -> None:
        for effect in effects:
            match effect:
                case FenceLac():
                    self._fence(effect)
                case ReadFenced():
                    self._read(effect)
                case Confirm():
                    pass
                case ChangeRecord(record):
                    self.change(self.machine(), record, self._version, self._note_version)
                case Recovered(record):
                    self.site.world.note(f"{self.name} has recovered to {record.last_entry}")
                    self.site.checker.ended(self.name, record)
                case StartOver() | Finish():
                    self.site.world.note(f"{self.name} ends: {effect}")
                    self._again()
                case _:
                    self.perform_shared(effect, recovery=True)

    def _note_version(self, version: int) -> None:
        self._version = version

    def _fence(self, effect: FenceLac) -> None:
        machine, bookie = self.machine(), self.site.bookies[effect.bookie]
        ledger_id = machine.record.ledger_id

        def answered(reply: LacReply | None) -> None:
            if reply is None:
                self.perform(machine.lac_failed(effect.position, "silent"))
            else:
                self.perform(machine.lac_answered(effect.position, reply))

        self.call("lac", bookie, lambda answer: bookie.last_add_confirmed(ledger_id, answer), answered)

    def _read(self, effect: ReadFenced) -> None:
        machine, bookie = self.machine(), self.site.bookies[effect.bookie]
        ledger_id, first, last = machine.record.ledger_id, effect.first_entry, effect.last_entry

        def answered(reply: ReadReply | None) -> None:
            if reply is None:
                self.perform(machine.read_failed(effect.position, "silent"))
            else:
                self.perform(machine.read_answered(effect.position, reply))

        self.call("read", bookie, lambda answer: bookie.read(ledger_id, first, last, answer), answered)
