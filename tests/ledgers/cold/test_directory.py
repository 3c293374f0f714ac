"""A directory as an object store: without the file that the first upload makes, it counts as not mounted."""

from __future__ import annotations

from pathlib import Path

import pytest

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
