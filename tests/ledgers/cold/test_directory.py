"""A directory as an object store: without the file that the first upload makes, it counts as not mounted."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from ledgers.cold import object_store
from ledgers.cold.errors import NoSuchObject, ObjectStoreFailed
from ledgers.cold.object_store import Objects


async def written(directory: Path) -> Objects:
    objects = Objects(directory.as_uri())
    await objects.prepare()
    async with objects.writing("a/0") as file:
        await file.write(b"abc")
    return objects


async def test_an_object_is_missing_from_a_directory_only_while_it_is_mounted(tmp_path: Path) -> None:
    (mount := tmp_path / "mount").mkdir()
    objects = await written(mount)
    with pytest.raises(NoSuchObject):
        await objects.size("b/0")
    mount.rename(tmp_path / "elsewhere")
    mount.mkdir()
    for call in (objects.size("a/0"), objects.read_end("a/0", 1), objects.delete_all("a")):
        with pytest.raises(ObjectStoreFailed, match="mount the file system that belongs there"):
            await call
    mount.rmdir()
    (tmp_path / "elsewhere").rename(mount)
    assert await objects.delete_all("a") == 1
    assert await objects.delete_all("a") == 0


async def test_the_file_that_shows_a_mounted_directory_is_not_an_object(tmp_path: Path) -> None:
    assert await (await written(tmp_path)).names() == [("a/0", 3)]


async def test_a_read_from_a_directory_that_hangs_ends_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe to which nobody writes hangs whoever opens it, as does a file of a mount whose server is gone."""
    monkeypatch.setattr(object_store, "ATTEMPT_SECONDS_MAX", 0.2)
    objects, pipe = await written(tmp_path), tmp_path / "a" / "1"
    os.mkfifo(pipe)
    try:
        with pytest.raises(ObjectStoreFailed, match=r"has not answered for 0\.2 s: check the file system"):
            await objects.read("a/1", 0, 5)
    finally:
        os.close(os.open(pipe, os.O_RDWR))  # who hangs there may go on


async def test_a_directory_of_which_nothing_is_known_hangs_neither_its_client_nor_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "ATTEMPT_SECONDS_MAX", 0.2)
    goes_on = threading.Event()
    monkeypatch.setattr(Path, "is_dir", lambda _: goes_on.wait())
    try:
        for call in (Objects(tmp_path.as_uri()).prepare(), Objects(tmp_path.as_uri()).delete_all("a")):
            with pytest.raises(ObjectStoreFailed, match=r"has not answered for 0\.2 s"):
                await call
    finally:
        goes_on.set()
