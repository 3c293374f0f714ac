"""A writer's calls wait for metadata that is away, for less than the writer waits for them (rule M2)."""

from __future__ import annotations

import asyncio

import pytest

from metadata.errors import MetadataError, OutcomeUnknown, StoreRefused, StoreUnavailable
from qjm_compat.acceptor import outage_retry
from qjm_compat.acceptor.outage_retry import AWAY_SECONDS_MAX, START_AWAY_SECONDS_MAX, OutageRetry
from qjm_compat.config import JournalConfig
from qjm_compat.error_translation import metadata_errors
from qjm_compat.errors import JournalUnavailable, MetadataAway
from qjm_compat.requests import GetEditLogManifest


class Effects:
    """Fails so often, then is performed."""

    def __init__(self, failures: int, error: type[JournalUnavailable] = MetadataAway) -> None:
        self.left = failures
        self._error = error

    async def perform(self, effect: str) -> str:
        if self.left:
            self.left -= 1
            raise self._error("away")
        return effect


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage_retry, "PAUSE_SECONDS", 0.001)


async def test_an_effect_is_performed_again_until_the_metadata_is_back() -> None:
    assert await OutageRetry(60).until_answered(Effects(5).perform, "swap") == "swap"


async def test_it_fails_with_the_last_error_when_the_time_is_over() -> None:
    began = asyncio.get_running_loop().time()
    with pytest.raises(MetadataAway):
        await OutageRetry(0.05).until_answered(Effects(10**9).perform, "swap")
    assert asyncio.get_running_loop().time() - began >= 0.04


async def test_what_else_fails_is_not_tried_again() -> None:
    effects = Effects(1, JournalUnavailable)
    with pytest.raises(JournalUnavailable):
        await OutageRetry(60).until_answered(effects.perform, "swap")
    assert effects.left == 0


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (StoreUnavailable("no answer"), MetadataAway),
        (StoreRefused("permission denied"), JournalUnavailable),
        (OutcomeUnknown("the answer was lost"), JournalUnavailable),
    ],
)
def test_only_a_store_that_certainly_did_nothing_is_asked_again(
    error: MetadataError, kind: type[JournalUnavailable]
) -> None:
    with pytest.raises(JournalUnavailable) as raised, metadata_errors():
        raise error
    assert type(raised.value) is kind


async def test_calls_of_readers_do_not_wait() -> None:
    effects = Effects(1)
    with pytest.raises(MetadataAway):
        await OutageRetry.of(GetEditLogManifest(since_txid=1)).until_answered(effects.perform, "read")


def test_every_wait_ends_before_the_writer_gives_up() -> None:
    config = JournalConfig()
    assert config.start_segment_seconds_max > START_AWAY_SECONDS_MAX
    assert config.takeover_seconds_max > AWAY_SECONDS_MAX
