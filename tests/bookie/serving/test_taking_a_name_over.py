"""W7: a name whose disk is lost may be given to a new directory, under another incarnation."""

from __future__ import annotations

from pathlib import Path

import pytest

from bookie.errors import DataDirectoryError
from bookie.serving import directory
from bookie.serving.cookie_check import check_cookie
from bookie.serving.directory import format_directory, read_cookie
from metadata.errors import OutcomeUnknown
from metadata.memory import MemoryStore
from metadata.records import cluster
from tests.bookie.serving.served import served


async def test_the_name_of_a_lost_bookie_goes_to_a_new_incarnation_and_the_old_disk_is_refused(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    old = await format_directory(tmp_path / "old", "b1", store)
    with pytest.raises(DataDirectoryError, match=r"formatted before.*--replace"):
        await format_directory(tmp_path / "new", "b1", store)
    new = await format_directory(tmp_path / "new", "b1", store, replace=True)
    assert new.incarnation != old.incarnation
    assert await check_cookie(tmp_path / "new", store) == new
    with pytest.raises(DataDirectoryError, match="old or foreign disk"):
        await check_cookie(tmp_path / "old", store)


async def test_a_living_bookie_is_not_replaced(tmp_path: Path) -> None:
    store = MemoryStore()
    async with served(tmp_path, store) as client:
        with pytest.raises(
            DataDirectoryError, match=r"b1 is registered: it is alive, or was killed.*stop it if it runs"
        ):
            await format_directory(tmp_path / "new", "b1", store, replace=True)
        assert await cluster.read_cookie(store, "b1") == client.bookie.cookie
        assert not (tmp_path / "new").exists()


async def test_replacing_a_name_that_nobody_has_is_a_plain_format(tmp_path: Path) -> None:
    store = MemoryStore()
    cookie = await format_directory(tmp_path / "new", "b1", store, replace=True)
    assert await cluster.read_cookie(store, "b1") == cookie == read_cookie(tmp_path / "new")


class LosesAnswers(MemoryStore):
    """The next replacement happens, and nobody hears of it."""

    lost = 0

    async def replace(
        self, key: str, value: bytes, version: int, *, unless: str | None = None, begins: bytes = b""
    ) -> int:
        done = await super().replace(key, value, version, unless=unless, begins=begins)
        if key == "cookies/b1" and not self.lost:
            self.lost += 1
            raise OutcomeUnknown("no answer")
        return done


async def test_a_replacement_whose_answer_was_lost_is_recognised(tmp_path: Path) -> None:
    """M1"""
    store = LosesAnswers()
    await format_directory(tmp_path / "old", "b1", store)
    new = await format_directory(tmp_path / "new", "b1", store, replace=True)
    assert store.lost == 1
    assert await cluster.read_cookie(store, "b1") == new


@pytest.mark.parametrize("step", ["take_name", "_finish"])
async def test_a_replacement_that_a_crash_interrupted_is_finished_by_another_try(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    await format_directory(tmp_path / "old", "b1", store)

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(directory, step, crash)
        with pytest.raises(KeyboardInterrupt):
            await format_directory(tmp_path / "new", "b1", store, replace=True)
    new = await format_directory(tmp_path / "new", "b1", store, replace=True)
    assert await check_cookie(tmp_path / "new", store) == new
