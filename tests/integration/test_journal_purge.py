"""Purging by command, on real bookies."""

from __future__ import annotations

from pathlib import Path

import pytest

from qjm_compat.transfer.errors import TransferRefused
from qjm_compat.transfer.purging import purge_journal
from tests.qjm_compat.transfer.made_directories import made_directory
from tests.qjm_compat.transfer.one_journal import Place


async def purge(place: Place, before: int, *, take_over: bool = False) -> None:
    async with place.inspector() as inspector, place.manager() as manager:
        await purge_journal(manager, inspector, before, take_over=take_over)


async def test_what_lies_behind_the_last_txid_cannot_be_purged_and_nobody_is_fenced(
    tmp_path: Path, place: Place
) -> None:
    current = made_directory(tmp_path / "name")
    await place.bring(current)
    epoch = await place.promised()
    with pytest.raises(TransferRefused, match=r"ends with txid 30: 32 cannot be .* the maximum is 31"):
        await purge(place, 32)
    assert await place.promised() == epoch
    await purge(place, 31)
    assert await place.segments() == []
    await purge(place, 31)
    with pytest.raises(TransferRefused, match="ends with txid 30"):
        await purge(place, 32)


async def test_a_segment_in_progress_that_is_taken_over_ends_before_its_txids_are_compared(
    tmp_path: Path, place: Place
) -> None:
    current = made_directory(tmp_path / "name")
    await place.bring(current, finalize=False)
    with pytest.raises(TransferRefused, match="ends with txid 30"):
        await purge(place, 32, take_over=True)
    assert await place.segments() == [(1, 10, False), (11, 20, False), (21, 30, False)]
    await purge(place, 31, take_over=True)
    assert await place.segments() == []
