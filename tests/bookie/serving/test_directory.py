"""W7: a data directory belongs to one bookie of one cluster in one incarnation, and to one process at a time."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from bookie.errors import DataDirectoryError
from bookie.serving import directory
from bookie.serving.cookie_check import check_cookie
from bookie.serving.directory import check_parts, format_directory, lock, read_cookie
from metadata import keys
from metadata.errors import OutcomeUnknown
from metadata.memory import MemoryData, MemoryStore
from metadata.records import cluster
from metadata.records.cluster import Cookie
from tests.support.aio import run

REPOSITORY = Path(__file__).parents[3]

LOCK_IT = """
import sys
from pathlib import Path
from bookie.serving.directory import lock
held = lock(Path(sys.argv[1]))
print("locked", flush=True)
sys.stdin.read()
"""


def contents(path: Path) -> dict[str, bytes | None]:
    """Every file below with its bytes, every directory with None."""
    return {
        str(found.relative_to(path)): found.read_bytes() if found.is_file() else None
        for found in sorted(path.rglob("*"))
    }


def formatted(path: Path, data: MemoryData, name: str = "b1") -> Cookie:
    return run(_formatted(path, data, name))


async def _formatted(path: Path, data: MemoryData, name: str) -> Cookie:
    return await format_directory(path, name, MemoryStore(data))


def refusal_of_check(path: Path, data: MemoryData) -> str:
    """What a start says that must refuse; it changes nothing."""

    async def check() -> None:
        await check_cookie(path, MemoryStore(data))

    before = contents(path)
    with pytest.raises(DataDirectoryError) as refused:
        run(check())
    assert contents(path) == before
    return str(refused.value)


def refusal_of_format(path: Path, data: MemoryData, name: str = "b1") -> str:
    """What formatting says that must refuse; it changes nothing, here or in the metadata."""

    async def keys_of() -> list[str]:
        return [item.key for item in (await MemoryStore(data).list_page("")).items]

    before, keys_before = contents(path), run(keys_of())
    with pytest.raises((DataDirectoryError, ValueError)) as refused:
        formatted(path, data, name)
    assert (contents(path), run(keys_of())) == (before, keys_before)
    return str(refused.value)


# --- format


def test_a_formatted_directory_and_the_metadata_hold_the_same_cookie(tmp_path: Path) -> None:
    data = MemoryData()
    path = tmp_path / "deep" / "data"
    cookie = formatted(path, data)

    async def known() -> tuple[Cookie | None, str | None, Cookie]:
        store = MemoryStore(data)
        return (
            await cluster.read_cookie(store, "b1"),
            await cluster.cluster_id(store),
            await check_cookie(path, store),
        )

    assert run(known()) == (cookie, cookie.cluster_id, cookie)
    assert read_cookie(path) == cookie
    assert cookie.bookie_id == "b1"
    assert str(uuid.UUID(cookie.incarnation)) == cookie.incarnation
    assert sorted(contents(path)) == ["cookie.json", "index", "log", "log/00000000.log"]


def test_bookies_of_one_cluster_share_its_id_and_nothing_else(tmp_path: Path) -> None:
    data = MemoryData()
    first, second = (formatted(tmp_path / name, data, name) for name in ("b1", "b2"))
    assert first.cluster_id == second.cluster_id
    assert first.incarnation != second.incarnation


def test_a_directory_that_holds_anything_is_not_formatted(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert "is not an empty directory" in refusal_of_format(tmp_path, MemoryData())


def test_a_file_is_not_formatted(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text("mine")
    with pytest.raises(DataDirectoryError, match="is not an empty directory"):
        formatted(path, MemoryData())
    assert path.read_text() == "mine"


def test_a_formatted_directory_is_not_formatted_again(tmp_path: Path) -> None:
    data = MemoryData()
    formatted(tmp_path, data)
    assert "is not an empty directory" in refusal_of_format(tmp_path, data, "b2")


def test_a_name_that_is_taken_is_refused(tmp_path: Path) -> None:
    """W7: an empty disk never comes up under an old name."""
    data = MemoryData()
    formatted(tmp_path / "first", data)
    (tmp_path / "second").mkdir()
    assert "the name b1 belongs to a bookie formatted before" in refusal_of_format(tmp_path / "second", data)


@pytest.mark.parametrize("name", ["", "a/b", "..", "a..b", "-a", "ä", "a" * 129, "a b", "a\n"])
def test_a_name_that_cannot_stand_in_a_key_is_refused(tmp_path: Path, name: str) -> None:
    assert "is not a usable name" in refusal_of_format(tmp_path, MemoryData(), name)


def test_of_two_who_format_under_one_name_at_once_one_is_refused(tmp_path: Path) -> None:
    data = MemoryData()

    async def both() -> list[Cookie | BaseException]:
        paths = tmp_path / "a", tmp_path / "b"
        return await asyncio.gather(*(_formatted(path, data, "b1") for path in paths), return_exceptions=True)

    outcomes = run(both())
    refused = [outcome for outcome in outcomes if not isinstance(outcome, Cookie)]
    assert [type(one) for one in refused] == [DataDirectoryError]


async def test_a_cookie_whose_answer_was_lost_is_recognised(tmp_path: Path) -> None:
    """M1"""

    class AnswersGetLost(MemoryStore):
        lost = False

        async def create(self, key: str, *args: Any, **options: Any) -> int:
            version = await super().create(key, *args, **options)
            if key.startswith(keys.COOKIES) and not self.lost:
                self.lost = True
                raise OutcomeUnknown("the answer was lost")
            return version

    path = tmp_path
    store = AnswersGetLost()
    cookie = await format_directory(path, "b1", store)
    assert await check_cookie(path, store) == cookie


# --- lock


def test_a_directory_in_use_is_not_used_by_a_second_process(tmp_path: Path) -> None:
    formatted(tmp_path, MemoryData())
    command = [sys.executable, "-c", LOCK_IT, str(tmp_path)]
    with subprocess.Popen(
        command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        before = contents(tmp_path)
        with pytest.raises(DataDirectoryError, match="is in use by another bookie process"):
            lock(tmp_path)
        assert contents(tmp_path) == before
        holder.kill()
    lock(tmp_path).close()


def test_a_lock_ends_when_it_is_closed(tmp_path: Path) -> None:
    formatted(tmp_path, MemoryData())
    first = lock(tmp_path)
    with pytest.raises(DataDirectoryError, match="is in use"):
        lock(tmp_path)
    first.close()
    first.close()
    second = lock(tmp_path)
    assert (second.log, second.index) == (tmp_path / "log", tmp_path / "index")
    second.close()


def test_an_unformatted_directory_is_not_locked(tmp_path: Path) -> None:
    for path, why in (
        (tmp_path, "is not a formatted bookie directory"),
        (tmp_path / "missing", "does not exist"),
    ):
        with pytest.raises(DataDirectoryError, match=f"{why}; run: bookledger bookie format"):
            lock(path)
    assert contents(tmp_path) == {}


# --- the cookie at every start


def test_a_directory_without_a_cookie_is_refused(tmp_path: Path) -> None:
    data = MemoryData()
    formatted(tmp_path, data)
    (tmp_path / directory.COOKIE).unlink()
    refusal = refusal_of_check(tmp_path, data)
    assert "cookie.json is gone, and the log of a bookie is there: put the file back" in refusal


def test_a_directory_of_another_cluster_is_refused(tmp_path: Path) -> None:
    """W7"""
    cookie = formatted(tmp_path / "here", MemoryData())
    elsewhere = MemoryData()
    formatted(tmp_path / "there", elsewhere)
    refused = refusal_of_check(tmp_path / "here", elsewhere)
    assert f"belongs to bookie b1 of another cluster ({cookie.cluster_id})" in refused
    refused = refusal_of_check(tmp_path / "here", MemoryData())
    assert f"of cluster {cookie.cluster_id}, and there is none under this --metadata" in refused


def test_a_disk_of_an_older_incarnation_is_refused(tmp_path: Path) -> None:
    """W7"""
    data = MemoryData()
    old = formatted(tmp_path / "old", data)

    async def give_the_name_up() -> None:
        store = MemoryStore(data)
        found = await store.get(keys.cookie("b1"))
        assert found is not None
        await store.delete(found.key, found.version)

    run(give_the_name_up())
    assert "the cookie was lost" in refusal_of_check(tmp_path / "old", data)
    new = formatted(tmp_path / "new", data)
    refused = refusal_of_check(tmp_path / "old", data)
    assert f"holds incarnation {old.incarnation}" in refused
    assert f"knows incarnation {new.incarnation}" in refused


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"{}",
        b'{"format_version": 1}',
        b"\xff\xfe",
        b'{"format_version": 1, "x": 2}',
    ],
)
def test_a_damaged_cookie_is_refused(tmp_path: Path, damaged: bytes) -> None:
    data = MemoryData()
    formatted(tmp_path, data)
    (tmp_path / directory.COOKIE).write_bytes(damaged)
    assert "cannot be read" in refusal_of_check(tmp_path, data)


def test_a_directory_of_a_later_format_is_refused_by_its_version(tmp_path: Path) -> None:
    data = MemoryData()
    formatted(tmp_path, data)
    path = tmp_path / directory.COOKIE
    fields = json.loads(path.read_text()) | {"format_version": 3, "news": True}
    path.write_text(json.dumps(fields))
    assert "has format version 3; this program knows 2" in refusal_of_check(tmp_path, data)


@pytest.mark.parametrize(
    ("lost", "says"),
    [("log", "is missing"), ("index", "is missing"), ("log/00000000.log", "what this bookie stored is lost")],
)
def test_R6_a_bookie_that_lost_part_of_its_directory_does_not_come_up_empty(
    tmp_path: Path, lost: str, says: str
) -> None:
    path = tmp_path / "b1"
    run(format_directory(path, "b1", MemoryStore()))
    check_parts(path)
    shutil.rmtree(path / lost) if (path / lost).is_dir() else (path / lost).unlink()
    with pytest.raises(DataDirectoryError, match=says):
        check_parts(path)


class DiesAfterTheCookie(MemoryStore):
    """A store behind which the process dies as soon as its cookie is created."""

    async def create(self, key: str, *args: Any, **options: Any) -> int:
        version = await super().create(key, *args, **options)
        if key.startswith(keys.COOKIES):
            raise KeyboardInterrupt
        return version


def test_a_format_interrupted_after_the_name_was_taken_is_finished_by_formatting_again(
    tmp_path: Path,
) -> None:
    data = MemoryData()
    path = tmp_path / "b1"
    with pytest.raises(KeyboardInterrupt):
        run(format_directory(path, "b1", DiesAfterTheCookie(data)))
    with pytest.raises(DataDirectoryError, match="belongs to a bookie formatted before"):
        run(format_directory(tmp_path / "elsewhere", "b1", MemoryStore(data)))
    cookie = run(format_directory(path, "b1", MemoryStore(data)))
    assert run(check_cookie(path, MemoryStore(data))) == cookie


@pytest.mark.parametrize("left", ["", "{", '{"format_version": 1}'])
def test_a_format_interrupted_while_it_wrote_its_first_file_begins_anew(tmp_path: Path, left: str) -> None:
    (tmp_path / "cookie.json.new").write_text(left)
    store_data = MemoryData()
    cookie = run(format_directory(tmp_path, "b1", MemoryStore(store_data)))
    assert run(check_cookie(tmp_path, MemoryStore(store_data))) == cookie


def test_an_interrupted_format_of_another_name_is_not_taken_over(tmp_path: Path) -> None:
    data = MemoryData()
    with pytest.raises(KeyboardInterrupt):
        run(format_directory(tmp_path / "d", "b1", DiesAfterTheCookie(data)))
    with pytest.raises(DataDirectoryError, match="interrupted format of bookie b1"):
        run(format_directory(tmp_path / "d", "b2", MemoryStore(data)))
