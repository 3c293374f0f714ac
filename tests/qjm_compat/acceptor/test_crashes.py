"""An acceptor that dies, or is failed by its disk, at any effect of any call, leaves a journal that works.

Every effect of every call is tried with every fault. Then the next epoch takes the journal over, and what it
finds and writes must be what it would have found and written had the call happened, or had it never come.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest

from metadata.errors import CONFLICTS_MAX
from metadata.records.journal_record import JournalState
from metadata.records.journal_store import VersionedState
from qjm_compat import requests
from qjm_compat.acceptor.programs import state_transitions
from qjm_compat.acceptor.programs.acceptor_effects import CopySegment, CreateLedger, Effect, SwapState
from qjm_compat.errors import BadJournalState, JournalUnavailable
from tests.contracts.journal_acceptor import UPGRADED
from tests.qjm_compat.acceptor.one_writer import (
    OneWriter,
    content,
    edits,
    first_writer,
    formatted,
    logs,
    writer_of,
)
from tests.qjm_compat.journals import NAMESPACE
from tests.qjm_compat.model import ModelAcceptor, ModelDisk

LATER = 50
"""The epoch that takes the journal over."""

AFTER_THE_UPGRADE = 3
"""The first epoch that is not refused after an upgrade which ended the writer of epoch 1."""


class Fault(Enum):
    """What may happen instead of an effect."""

    DIES_BEFORE = "the process dies before it"
    DIES_AFTER = "the process dies when it has happened"
    FAILS = "it fails"
    ANSWER_LOST = "it happens and is told to have failed"

    @property
    def happens(self) -> bool:
        return self in (Fault.DIES_AFTER, Fault.ANSWER_LOST)

    @property
    def is_death(self) -> bool:
        return self in (Fault.DIES_BEFORE, Fault.DIES_AFTER)


class DiedError(Exception):
    """The process is gone."""


class FaultyDisk(ModelDisk):
    """Has one fault, at the effect of this number."""

    def __init__(self) -> None:
        super().__init__()
        self.effects: list[Effect] = []
        self.fault_at: int | None = None
        self.fault = Fault.FAILS
        self.contests = 0
        self._lost = 0

    def perform(self, effect: Effect, peers: Mapping[str, ModelDisk]) -> Any:
        self.effects.append(effect)
        if isinstance(effect, SwapState) and self.state is not None:
            self._contest(self.state)
        if len(self.effects) != self.fault_at:
            return super().perform(effect, peers)
        if self.fault.happens:
            super().perform(effect, peers)
        raise DiedError if self.fault.is_death else JournalUnavailable("the disk failed")

    def _contest(self, stored: VersionedState) -> None:
        """Somebody else is faster, `contests` times before every swap that succeeds."""
        self._lost = self._lost + 1 if self._lost < self.contests else 0
        if self._lost:
            self._swap(stored.state, stored.version)


Before = Callable[[ModelAcceptor, ModelAcceptor], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Case:
    """A call, and what the journal was before: of the acceptor that is called, and of one to copy from."""

    before: Before
    request: requests.Request[Any]


async def nothing(_: ModelAcceptor, __: ModelAcceptor) -> None:
    """No journal at all."""


async def empty(a: ModelAcceptor, _: ModelAcceptor) -> None:
    await formatted(a)


async def written(a: ModelAcceptor, _: ModelAcceptor) -> None:
    """Two segments finalized, and a third one in progress."""
    writer = await first_writer(a)
    await writer.write_final(1, 3)
    await writer.write_final(4, 6)
    await writer.write_open(7, 9)


async def all_final(a: ModelAcceptor, _: ModelAcceptor) -> None:
    writer = await first_writer(a)
    await writer.write_final(1, 3)
    await writer.write_final(4, 6)


async def single_edit(a: ModelAcceptor, _: ModelAcceptor) -> None:
    await (await first_writer(a)).write_open(1, 1)


async def empty_segment(a: ModelAcceptor, _: ModelAcceptor) -> None:
    await (await first_writer(a)).start(1)


async def prepared(a: ModelAcceptor, b: ModelAcceptor) -> None:
    """Segment 1-3 here and 1-5 there, and a recovery that has asked both."""
    for acceptor, last in ((a, 3), (b, 5)):
        await (await first_writer(acceptor)).write_open(1, last)
        await (await writer_of(acceptor, 2)).prepare(1)


async def accepted(a: ModelAcceptor, b: ModelAcceptor) -> None:
    await prepared(a, b)
    await OneWriter(a, 2, first_serial=1).accept(requests.SegmentState(1, 5, True, 1), source="b")


async def pre_upgraded(a: ModelAcceptor, b: ModelAcceptor) -> None:
    await written(a, b)
    await a.call(requests.DoPreUpgrade())


async def upgraded(a: ModelAcceptor, b: ModelAcceptor) -> None:
    await pre_upgraded(a, b)
    await a.call(requests.DoUpgrade(UPGRADED.storage))
    writer = await writer_of(a, AFTER_THE_UPGRADE)
    await writer.take_over(7)
    await writer.write_final(10, 11)
    await writer.write_open(12, 13)


async def final_without_a_record(a: ModelAcceptor, _: ModelAcceptor) -> None:
    writer = await first_writer(a)
    await writer.write_final(1, 3)
    await writer.write_open(4, 6)
    a.disk.finalize_without_a_record(4, 6)
    a.memory.open = None


def info(epoch: int) -> requests.RequestInfo:
    return requests.RequestInfo(epoch, 30)


CASES: dict[str, Case] = {
    "format": Case(nothing, requests.Format(NAMESPACE)),
    "format by force": Case(written, requests.Format(NAMESPACE, force=True)),
    "format by force in an upgrade": Case(upgraded, requests.Format(NAMESPACE, force=True)),
    "newEpoch": Case(written, requests.NewEpoch(NAMESPACE, 5)),
    "newEpoch on an empty segment": Case(empty_segment, requests.NewEpoch(NAMESPACE, 5)),
    "a call of a later epoch": Case(written, requests.Heartbeat(info=info(5))),
    "startLogSegment, the first": Case(empty, requests.StartLogSegment(info=info(1), txid=1)),
    "startLogSegment after others": Case(all_final, requests.StartLogSegment(info=info(1), txid=7)),
    "startLogSegment after one without a record": Case(
        final_without_a_record, requests.StartLogSegment(info=info(1), txid=7)
    ),
    "startLogSegment beside one in progress": Case(written, requests.StartLogSegment(info=info(1), txid=10)),
    "startLogSegment over an empty one": Case(empty_segment, requests.StartLogSegment(info=info(2), txid=1)),
    "startLogSegment over a single edit": Case(single_edit, requests.StartLogSegment(info=info(2), txid=1)),
    "finalizeLogSegment": Case(written, requests.FinalizeLogSegment(info=info(1), start_txid=7, end_txid=9)),
    "finalizeLogSegment of a recovery": Case(
        accepted, requests.FinalizeLogSegment(info=info(2), start_txid=1, end_txid=5)
    ),
    "purgeLogs": Case(written, requests.PurgeLogs(info=info(1), min_txid_to_keep=4)),
    "purgeLogs in an upgrade": Case(
        upgraded, requests.PurgeLogs(info=info(AFTER_THE_UPGRADE), min_txid_to_keep=11)
    ),
    "prepareRecovery": Case(written, requests.PrepareRecovery(info=info(5), segment_txid=7)),
    "acceptRecovery of what is here": Case(
        written, requests.AcceptRecovery(info=info(2), state=requests.SegmentState(7, 9, True, 1), source="a")
    ),
    "acceptRecovery with a copy": Case(
        prepared,
        requests.AcceptRecovery(info=info(2), state=requests.SegmentState(1, 5, True, 1), source="b"),
    ),
    "doPreUpgrade": Case(written, requests.DoPreUpgrade()),
    "doUpgrade": Case(pre_upgraded, requests.DoUpgrade(UPGRADED.storage)),
    "doFinalize": Case(upgraded, requests.DoFinalize()),
    "doRollback": Case(upgraded, requests.DoRollback()),
    "discardSegments": Case(written, requests.DiscardSegments(4)),
}


class Trial:
    """One call with one fault, or none."""

    def __init__(self) -> None:
        self.disks: dict[str, FaultyDisk] = {"a": FaultyDisk(), "b": FaultyDisk()}
        self.acceptor = self.process("a")

    @property
    def disk(self) -> FaultyDisk:
        return self.disks["a"]

    def process(self, name: str) -> ModelAcceptor:
        return ModelAcceptor("ns1", name, self.disks)

    async def prepare(self, case: Case) -> None:
        await case.before(self.acceptor, self.process("b"))
        self.disk.effects.clear()

    async def call(self, request: requests.Request[Any], fault_at: int, fault: Fault) -> None:
        self.disk.fault_at, self.disk.fault = fault_at, fault
        try:
            await self.acceptor.call(request)
        except DiedError:
            self.acceptor = self.process("a")
        except JournalUnavailable:
            pass
        assert len(self.disk.effects) >= fault_at
        self.disk.fault_at = None

    async def taken_over(self) -> dict[int, tuple[int, bytes]]:
        """What the next writer makes of it: all segments, by their starts, with their last txids and edits."""
        await self._format_if_need_be()
        writer = OneWriter(self.acceptor, LATER)
        latest = (await writer.new_epoch()).last_segment_txid
        next_txid = 1
        if latest is not None and (found := (await writer.prepare(latest)).segment) is not None:
            await writer.accept(found)
            await writer.finalize(found.start_txid, found.end_txid)
            next_txid = found.end_txid + 1
        await writer.write_final(next_txid, next_txid)
        await writer.purge(1)
        return {
            first: (last, await content(self.acceptor, first)) for first, last, _ in await logs(self.acceptor)
        }

    async def _format_if_need_be(self) -> None:
        if await self.acceptor.call(requests.IsFormatted()):
            return
        if self.disk.state is not None:
            await self.acceptor.call(requests.DoRollback())
        else:
            await self.acceptor.call(requests.Format(NAMESPACE))

    # --- what must hold ------------------------------------------------------------------------------

    def check(self, *, leaks_max: int) -> None:
        """Everything that the records refer to is there; and nothing else, but `leaks_max` ledgers."""
        assert self.disk.state is not None
        state = self.disk.state.state
        for one in (state, state.previous) if state.previous is not None else (state,):
            self._check_state(one)
        referred = state_transitions.kept_ledgers(state) | set(state.replaced_ledgers)
        for found in self.disk.finalized.values():
            referred |= {found.segment.ledger_id}
        assert len(self.disk.ledgers.keys() - referred) <= leaks_max

    def _check_state(self, state: JournalState) -> None:
        ends = [(s.start_txid, s.ledger_id, s.end_txid) for s in state.segments if s.end_txid is not None]
        for found in self.disk.finalized.values():
            if state.shows(found.segment):
                ends.append((found.segment.start_txid, found.segment.ledger_id, found.segment.end_txid))
        for start, ledger_id, end in ends:
            ledger = self.disk.ledgers[ledger_id]
            assert ledger.is_closed
            assert (ledger.batches[0].first_txid, ledger.end.end_txid) == (start, end)
        for accepted_end in state.accepted:
            segment = state_transitions.segment_at(state, accepted_end.start_txid)
            assert segment is not None
            assert segment.end_txid == accepted_end.end_txid


async def without_fault(case: Case, *, called: bool) -> dict[int, tuple[int, bytes]]:
    trial = Trial()
    await trial.prepare(case)
    if called:
        await trial.acceptor.call(case.request)
    return await trial.taken_over()


async def effects_of(case: Case) -> list[Effect]:
    trial = Trial()
    await trial.prepare(case)
    await trial.acceptor.call(case.request)
    return trial.disk.effects


async def promised(trial: Trial) -> int:
    return trial.disk.state.state.last_promised_epoch if trial.disk.state is not None else 0


@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name.lower())
@pytest.mark.parametrize("name", CASES)
async def test_a_fault_at_any_effect_is_as_if_the_call_had_happened_or_had_never_come(
    name: str, fault: Fault
) -> None:
    case = CASES[name]
    outcomes = [await without_fault(case, called=called) for called in (True, False)]
    effects = await effects_of(case)
    assert effects
    for number, effect in enumerate(effects, 1):
        trial = Trial()
        await trial.prepare(case)
        before = await promised(trial)
        await trial.call(case.request, number, fault)
        under_construction = any(isinstance(e, CreateLedger | CopySegment) for e in effects[:number])
        found = await trial.taken_over()
        assert found in outcomes, (number, effect)
        trial.check(leaks_max=int(under_construction))
        assert await promised(trial) == max(before, LATER)


@pytest.mark.parametrize("name", CASES)
async def test_a_call_lives_through_changes_by_others(name: str) -> None:
    case, trial = CASES[name], Trial()
    await trial.prepare(case)
    trial.disk.contests = 3
    await trial.acceptor.call(case.request)
    trial.disk.contests = 0
    assert await trial.taken_over() == await without_fault(case, called=True)
    trial.check(leaks_max=0)


@pytest.mark.parametrize("name", [name for name in CASES if name != "format"])
async def test_a_call_gives_up_when_others_change_the_state_for_ever(name: str) -> None:
    case, trial = CASES[name], Trial()
    await trial.prepare(case)
    trial.disk.contests = 10**9
    if any(isinstance(effect, SwapState) for effect in await effects_of(case)):
        with pytest.raises(
            JournalUnavailable, match=f"changed concurrently {CONFLICTS_MAX} times; try again"
        ):
            await trial.acceptor.call(case.request)
    trial.disk.contests = 0
    assert await trial.taken_over() == await without_fault(case, called=False)
    trial.check(leaks_max=1)


@pytest.mark.parametrize("name", CASES)
async def test_without_a_fault_nothing_is_leaked(name: str) -> None:
    trial = Trial()
    await trial.prepare(CASES[name])
    await trial.acceptor.call(CASES[name].request)
    await trial.taken_over()
    trial.check(leaks_max=0)


async def test_nothing_is_discarded_below_what_was_purged_wherever_the_purge_died() -> None:
    case = Case(written, requests.PurgeLogs(info=info(1), min_txid_to_keep=7))
    for number in range(1, 1 + len(await effects_of(case))):
        trial = Trial()
        await trial.prepare(case)
        await trial.call(case.request, number, Fault.DIES_AFTER)
        assert trial.disk.state is not None
        if trial.disk.state.state.purged_below == 7:
            with pytest.raises(BadJournalState, match="before 7 were purged"):
                await trial.acceptor.call(requests.DiscardSegments(5))
            assert all(start >= 7 for start, _, _ in await logs(trial.acceptor)), number


def test_every_call_that_changes_a_journal_is_tried() -> None:
    from qjm_compat.acceptor.programs.machine import CONCURRENT, PROGRAMS

    changing = set(PROGRAMS) - CONCURRENT - {requests.GetJournalState, requests.GetEditLogManifest}
    assert changing == {type(case.request) for case in CASES.values()}


async def test_a_restarted_acceptor_refuses_to_go_on_with_a_segment_and_gives_what_was_confirmed() -> None:
    trial = Trial()
    await trial.prepare(CASES["finalizeLogSegment"])
    trial.acceptor = trial.process("a")
    found = await trial.taken_over()
    assert found[7] == (9, edits(7, 9, 1))
