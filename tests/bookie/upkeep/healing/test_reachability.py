"""The auditor calls every living bookie at the address it advertises, and tells who does not answer."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest

from bookie.upkeep.healing import auditor
from bookie.upkeep.healing.auditor import Auditor
from metadata import keys
from metadata.healing import lease_lock
from metadata.records.ledger_record import BookieRef
from metadata.records.registration import Registration
from tests.bookie.upkeep.healing.site import CONFIG, NOW, Healing
from tests.bookie.upkeep.replicas import BK1, BK2, BK3, ME
from tests.support.present import there

WHY = "cannot connect to 192.0.2.1:3181"


async def told(one: Healing) -> dict[str, str]:
    """After one more look of the auditor."""
    assert await one.auditor._is_elected()
    view = await one.auditor.look_once()
    await one.auditor._publish_office(view)
    if (probes := one.auditor._reachability.probes) is not None:
        await asyncio.wait([probes])
    await one.auditor._publish_office(view)
    found = there(await lease_lock.read(one.store, keys.AUDITOR))
    return {name: one.why for name, one in found.unreachable.items()}


async def called_at(one: Healing) -> str:
    """The address of the one bookie that was called in vain."""
    found = there(await lease_lock.read(one.store, keys.AUDITOR))
    (unreached,) = found.unreachable.values()
    return unreached.address


def calls_always(one: Healing) -> None:
    config = replace(CONFIG, reach_seconds=1e-9)
    one.auditor = Auditor(one.store, ME, config, lambda: NOW, one.peers)


async def test_a_bookie_that_does_not_answer_twice_is_told_until_it_answers(one: Healing) -> None:
    calls_always(one)
    one.peers.unreachable[BK1] = WHY
    assert await told(one) == {}, "it may just have been restarted"
    assert await told(one) == {BK1.bookie_id: WHY}
    assert await told(one) == {BK1.bookie_id: WHY}
    one.peers.unreachable.clear()
    assert await told(one) == {}


async def test_who_is_not_registered_is_not_called(one: Healing) -> None:
    calls_always(one)
    one.peers.unreachable |= {BK1: WHY, BK2: WHY}
    await told(one)
    await one.dies(BK2)
    assert await told(one) == {BK1.bookie_id: WHY}


async def test_nobody_is_called_where_that_is_switched_off(one: Healing) -> None:
    one.auditor = Auditor(one.store, ME, replace(CONFIG, reach_seconds=0), lambda: NOW, one.peers)
    one.peers.unreachable[BK1] = WHY
    assert [await told(one) for _ in range(3)] == [{}] * 3


async def test_who_has_moved_is_unreachable_only_once_it_failed_twice_at_its_new_address(
    one: Healing,
) -> None:
    """What it is told of is the address at which it was called, also in the metadata."""
    calls_always(one)
    one.peers.unreachable[BK1] = WHY
    await told(one)
    assert await told(one) == {BK1.bookie_id: WHY}
    assert await called_at(one) == "b1:1"
    await one.dies(BK1)
    await one.registers(Registration(BK1, "b1:2"))
    assert await told(one) == {}
    assert await told(one) == {BK1.bookie_id: WHY}
    assert await called_at(one) == "b1:2"


# --- that most of a cluster is absent is told once


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


async def returns(one: Healing, *bookies: BookieRef) -> None:
    for bookie in bookies:
        await one.registers(Registration(bookie, f"{bookie}:1"))


async def test_nothing_is_said_while_a_cluster_starts(one: Healing, caplog: pytest.LogCaptureFixture) -> None:
    """The first of its bookies is the auditor, and alone until the others serve."""
    for bookie in (BK1, BK2, BK3):
        await one.dies(bookie)
    for _ in range(3):
        assert (await one.auditor.look_once()).is_braked
    await returns(one, BK1, BK2, BK3)
    assert not (await one.auditor.look_once()).is_braked
    assert errors(caplog) == []


async def test_whoever_stays_absent_is_named_once_until_it_is_back(
    one: Healing, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auditor, "BRAKE_LOG_SECONDS", 0.0)
    for told in (1, 2):
        await one.dies(BK1)
        await one.dies(BK2)
        for _ in range(3):
            await one.auditor.look_once()
        assert (
            errors(caplog)
            == ["b1, b2 are absent: nothing is re-replicated while this many bookies are absent"] * told
        )
        await returns(one, BK1, BK2)
        await one.auditor.look_once()
