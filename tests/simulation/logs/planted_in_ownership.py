"""Bugs planted in what a set of logs has of its own, one at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ledgers.logs.log_calls import LogCalls
from metadata.records.logs.log_record import LogRecord, SetMember
from metadata.records.logs.log_set_record import LogSetRecord, log_name
from metadata.records.logs.log_store import VersionedLog
from metadata.records.logs.retention import NOTHING_GOES
from tests.simulation.engine.planted import Real, around, bug


@around(LogCalls, "settle", within=1000, known=163)
async def growth_leaves_retention_behind(
    settle: Real, self: LogCalls, model: LogRecord, member: SetMember, password: bytes
) -> None:
    if await self._found(log_name(model.name, member.number)) is None:
        model = replace(model, retention=NOTHING_GOES)
    await settle(self, model, member, password)


@bug(within=1000, known=182)
def a_set_adopts_a_strangers_log(patch: pytest.MonkeyPatch) -> None:
    """It does not look whose a log of its name is."""

    async def check_name(self: LogCalls, name: str, _: bytes) -> VersionedLog | None:
        return await self._found(name)

    def as_its_set(self: LogRecord, model: LogRecord, member: SetMember) -> LogRecord:
        return replace(self, member=member, retention=model.retention, legal_hold=model.legal_hold)

    patch.setattr(LogCalls, "check_name", check_name)
    patch.setattr(LogRecord, "as_its_set", as_its_set)


@around(LogSetRecord, "wanting", within=1000, known=114)
def what_a_set_wants_is_taken_to_be_settled(wanting: Real, self: LogSetRecord, model: Any) -> Any:
    """Whoever was interrupted leaves some logs with what they had."""
    return replace(wanting(self, model), is_unsettled=False)
