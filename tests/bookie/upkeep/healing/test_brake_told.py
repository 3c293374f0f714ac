"""That most of a cluster is absent is an error in the auditor's log, once; that a cluster is starting is none."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from bookie.upkeep.healing import auditor
from metadata.records.ledger_record import BookieRef
from metadata.records.registration import Registration
from tests.bookie.upkeep.healing.test_worker import Healing, healing
from tests.bookie.upkeep.replicas import B1, B2, B3


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


async def returns(one: Healing, *bookies: BookieRef) -> None:
    for bookie in bookies:
        registration = Registration(bookie, f"{bookie}:1")
        await one.store.create(registration.key, registration.encode())


async def test_nothing_is_said_while_a_cluster_starts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The first of its bookies is the auditor, and alone until the others serve."""
    async with healing(tmp_path) as one:
        for bookie in (B1, B2, B3):
            await one.dies(bookie)
        for _ in range(3):
            assert (await one.auditor.look_once()).is_braked
        await returns(one, B1, B2, B3)
        assert not (await one.auditor.look_once()).is_braked
    assert errors(caplog) == []


async def test_whoever_stays_absent_is_named_once_until_it_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with healing(tmp_path) as one:
        monkeypatch.setattr(auditor, "BRAKE_TOLD_SECONDS", 0.0)
        for told in (1, 2):
            await one.dies(B1)
            await one.dies(B2)
            for _ in range(3):
                await one.auditor.look_once()
            assert errors(caplog) == ["b1, b2 are absent: nothing is re-replicated while so many are"] * told
            await returns(one, B1, B2)
            await one.auditor.look_once()
