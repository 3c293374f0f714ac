"""A writer that is overtaken in the middle of a call: from the later promise on, it changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest

from metadata.records.journal_record import JournalState
from qjm_compat.acceptor.programs import state_transitions
from qjm_compat.acceptor.programs.acceptor_effects import Effect, ReadFinalized, SwapState
from qjm_compat.errors import BadRequest, JournalError, RuleViolated, StaleEpoch
from qjm_compat.requests import (
    AcceptRecovery,
    FinalizeLogSegment,
    PrepareRecovery,
    PurgeLogs,
    Request,
    RequestInfo,
    SegmentState,
    StartLogSegment,
)
from tests.qjm_compat.acceptor.one_writer import first_writer, writer_of
from tests.qjm_compat.model import ModelAcceptor, ModelDisk

LATER = 50
"""The epoch that is promised meanwhile, in another process."""

INFO = RequestInfo(2, 30)

CALLS: dict[str, Request[Any]] = {
    "startLogSegment": StartLogSegment(info=INFO, txid=10),
    "finalizeLogSegment": FinalizeLogSegment(info=INFO, start_txid=4, end_txid=6),
    "purgeLogs": PurgeLogs(info=INFO, min_txid_to_keep=4),
    "prepareRecovery": PrepareRecovery(info=INFO, segment_txid=4),
    "acceptRecovery of what is here": AcceptRecovery(
        info=INFO, state=SegmentState(4, 6, True, 1), source="a"
    ),
    "acceptRecovery with a copy": AcceptRecovery(info=INFO, state=SegmentState(4, 9, True, 1), source="b"),
}


class OvertakenDisk(ModelDisk):
    """Before the effect of this number, another process promises the journal to a later writer."""

    def __init__(self) -> None:
        super().__init__()
        self.effects: list[Effect] = []
        self.overtaken_at: int | None = None
        self.as_promised: JournalState | None = None

    def perform(self, effect: Effect, peers: Mapping[str, ModelDisk]) -> Any:
        self.effects.append(effect)
        if len(self.effects) == self.overtaken_at:
            assert self.state is not None
            self.as_promised = state_transitions.promised(self.state.state, LATER)
            self._swap(self.as_promised, self.state.version)
        return super().perform(effect, peers)


async def prepared() -> tuple[ModelAcceptor, OvertakenDisk]:
    """Segment 1-3 finalized; 4-6 here and 4-9 at `b`, accepted here by writer 2 as it is."""
    disk = OvertakenDisk()
    disks = {"a": disk, "b": ModelDisk()}
    for name, last in (("a", 6), ("b", 9)):
        acceptor = ModelAcceptor("ns1", name, disks)
        first = await first_writer(acceptor)
        await first.write_final(1, 3)
        await first.write_open(4, last)
    acceptor = ModelAcceptor("ns1", "a", disks)
    second = await writer_of(acceptor, 2)
    await second.accept(SegmentState(4, 6, True, 1))
    disk.effects.clear()
    return acceptor, disk


@pytest.mark.parametrize("name", CALLS)
async def test_from_the_promise_to_a_later_writer_on_a_call_under_way_changes_nothing(name: str) -> None:
    acceptor, disk = await prepared()
    await acceptor.call(CALLS[name])
    effects = list(disk.effects)
    changes, has_changed = any(isinstance(effect, SwapState) for effect in effects), False
    for number, effect in enumerate(effects, 1):
        acceptor, disk = await prepared()
        disk.overtaken_at = number
        with suppress(StaleEpoch):
            await acceptor.call(CALLS[name])
            assert has_changed or not changes, "it says that it has done what nobody did"
        has_changed |= isinstance(effect, SwapState)
        assert disk.state is not None
        assert disk.state.state == disk.as_promised, (number, effect)


@pytest.mark.parametrize(
    ("call", "refusal"),
    [
        (FinalizeLogSegment(info=INFO, start_txid=1, end_txid=2), BadRequest),
        (AcceptRecovery(info=INFO, state=SegmentState(1, 2, True, 1), source="b"), RuleViolated),
    ],
)
async def test_what_a_later_writer_finalized_meanwhile_is_no_fault_of_the_earlier_one(
    call: Request[Any], refusal: type[JournalError]
) -> None:
    acceptor, disk = await prepared()
    with pytest.raises(refusal):
        await acceptor.call(call)
    at = next(n for n, effect in enumerate(disk.effects, 1) if isinstance(effect, ReadFinalized))
    acceptor, disk = await prepared()
    disk.overtaken_at = at
    with pytest.raises(StaleEpoch):
        await acceptor.call(call)
