"""A data directory belongs to one bookie of one cluster in one incarnation, and to one process at a time (W7)."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from bookie.errors import DataDirectoryError
from bookie.serving import directory
from bookie.serving.cookie_check import check_cookie
from bookie.serving.directory import check_parts, format_directory, lock, read_cookie
from metadata import keys
from metadata.errors import OutcomeUnknown
from metadata.memory_store import MemoryData, MemoryStore
from metadata.records import cluster
from metadata.records.cluster import Cookie
from tests.bookie.serving.served import served
from tests.support.aio import run
from tests.support.faulty_store import FaultyStore
from tests.support.present import there

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


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(MemoryData())


async def refusal_of_check(path: Path, store: MemoryStore) -> str:
    """What a start says that must refuse; it changes nothing."""
    before = contents(path)
    with pytest.raises(DataDirectoryError) as refused:
        await check_cookie(path, store)
    assert contents(path) == before
    return str(refused.value)


async def refusal_of_format(
    path: Path, store: MemoryStore, name: str = "b1", *, replace: bool = False
) -> str:
    """What formatting says that must refuse; it changes nothing, here or in the metadata."""
    before, metadata = contents(path), (await store.list_page("")).items
    with pytest.raises((DataDirectoryError, ValueError)) as refused:
        await format_directory(path, name, store, replace=replace)
    assert (contents(path), (await store.list_page("")).items) == (before, metadata)
    return str(refused.value)


# --- format


async def test_a_formatted_directory_and_the_metadata_hold_the_same_cookie(
    tmp_path: Path, store: MemoryStore
) -> None:
    path = tmp_path / "deep" / "data"
    cookie = await format_directory(path, "b1", store)
    assert (
        await cluster.read_cookie(store, "b1")
        == await check_cookie(path, store)
        == read_cookie(path)
        == cookie
    )
    assert (await cluster.cluster_id(store), cookie.bookie_id) == (cookie.cluster_id, "b1")
    assert str(uuid.UUID(cookie.incarnation)) == cookie.incarnation
    assert sorted(contents(path)) == ["cookie.json", "index", "log", "log/00000000.log"]
    other = await format_directory(tmp_path / "b2", "b2", store)
    assert other.cluster_id == cookie.cluster_id, "bookies of one cluster share its id"
    assert other.incarnation != cookie.incarnation


async def test_what_holds_anything_is_not_formatted(tmp_path: Path, store: MemoryStore) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "notes.txt").write_text("mine")
    assert "is not an empty directory" in await refusal_of_format(tmp_path / "notes", store)
    with pytest.raises(DataDirectoryError, match="is not an empty directory"):
        await format_directory(tmp_path / "notes" / "notes.txt", "b1", store)
    assert (tmp_path / "notes" / "notes.txt").read_text() == "mine"
    await format_directory(tmp_path / "b1", "b1", store)
    assert "is not an empty directory" in await refusal_of_format(tmp_path / "b1", store, "b2")


@pytest.mark.parametrize("name", ["", "a/b", "..", "a..b", "-a", "ä", "a" * 129, "a b", "a\n"])
async def test_a_name_that_cannot_stand_in_a_key_is_refused(
    tmp_path: Path, store: MemoryStore, name: str
) -> None:
    assert "is not a usable name" in await refusal_of_format(tmp_path, store, name)


async def test_of_two_who_format_under_one_name_at_once_one_is_refused(
    tmp_path: Path, store: MemoryStore
) -> None:
    both = (format_directory(tmp_path / name, "b1", store) for name in "ab")
    outcomes = await asyncio.gather(*both, return_exceptions=True)
    assert sorted(type(one).__name__ for one in outcomes) == ["Cookie", "DataDirectoryError"]


async def test_a_cookie_whose_answer_was_lost_is_recognised(tmp_path: Path) -> None:
    """Also one that takes the place of another."""
    store = FaultyStore()
    for name in ("old", "new"):
        store.fail(OutcomeUnknown("the answer was lost"), keys=keys.COOKIES, bad=1, done=True)
        cookie = await format_directory(tmp_path / name, "b1", store, replace=name == "new")
        assert await check_cookie(tmp_path / name, store) == cookie
    assert store.failures == 2


# --- a name whose disk is lost, which may be given to a new directory


async def test_a_name_goes_to_a_new_incarnation_where_that_is_wanted_and_the_old_disk_is_refused(
    tmp_path: Path, store: MemoryStore
) -> None:
    old = await format_directory(tmp_path / "old", "b1", store)
    (tmp_path / "new").mkdir()
    said = await refusal_of_format(tmp_path / "new", store)
    assert "the name b1 belongs to a bookie that is already formatted" in said and "--replace" in said
    new = await format_directory(tmp_path / "new", "b1", store, replace=True)
    assert new.incarnation != old.incarnation
    assert await check_cookie(tmp_path / "new", store) == new
    refused = await refusal_of_check(tmp_path / "old", store)
    assert "old or foreign disk" in refused
    assert f"holds incarnation {old.incarnation}" in refused
    assert f"knows incarnation {new.incarnation}" in refused


async def test_a_living_bookie_is_not_replaced(tmp_path: Path, store: MemoryStore) -> None:
    async with served(tmp_path, store) as client:
        with pytest.raises(
            DataDirectoryError,
            match=r"b1 is registered: it is alive, or was killed.*stop it if it is running",
        ):
            await format_directory(tmp_path / "new", "b1", store, replace=True)
        assert await cluster.read_cookie(store, "b1") == client.bookie.cookie
        assert not (tmp_path / "new").exists()


async def test_replacing_a_name_that_nobody_has_is_a_plain_format(tmp_path: Path, store: MemoryStore) -> None:
    cookie = await format_directory(tmp_path / "new", "b1", store, replace=True)
    assert await cluster.read_cookie(store, "b1") == cookie == read_cookie(tmp_path / "new")


@pytest.mark.parametrize("step", ["take_name", "_finish"])
async def test_a_replacement_that_a_crash_interrupted_is_finished_by_another_try(
    tmp_path: Path, store: MemoryStore, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await format_directory(tmp_path / "old", "b1", store)

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(directory, step, crash)
        with pytest.raises(KeyboardInterrupt):
            await format_directory(tmp_path / "new", "b1", store, replace=True)
    new = await format_directory(tmp_path / "new", "b1", store, replace=True)
    assert await check_cookie(tmp_path / "new", store) == new


# --- lock


def test_a_directory_in_use_is_not_used_by_a_second_process(tmp_path: Path, store: MemoryStore) -> None:
    run(format_directory(tmp_path, "b1", store))
    command = [sys.executable, "-c", LOCK_IT, str(tmp_path)]
    with subprocess.Popen(
        command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert there(holder.stdout).readline() == "locked\n"
        before = contents(tmp_path)
        with pytest.raises(DataDirectoryError, match="is in use by another bookie process"):
            lock(tmp_path)
        assert contents(tmp_path) == before
        holder.kill()
    lock(tmp_path).close()


async def test_a_lock_ends_when_it_is_closed(tmp_path: Path, store: MemoryStore) -> None:
    await format_directory(tmp_path, "b1", store)
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


async def test_a_directory_without_a_cookie_is_refused(tmp_path: Path, store: MemoryStore) -> None:
    await format_directory(tmp_path, "b1", store)
    (tmp_path / directory.COOKIE).unlink()
    refusal = await refusal_of_check(tmp_path, store)
    assert "cookie.json is gone, and the log of a bookie is there: put the file back" in refusal


async def test_a_directory_of_another_cluster_is_refused(tmp_path: Path, store: MemoryStore) -> None:
    cookie, elsewhere = await format_directory(tmp_path / "here", "b1", store), MemoryStore(MemoryData())
    refused = await refusal_of_check(tmp_path / "here", elsewhere)
    assert f"of cluster {cookie.cluster_id}, but no cluster exists under this --metadata" in refused
    await format_directory(tmp_path / "there", "b1", elsewhere)
    refused = await refusal_of_check(tmp_path / "here", elsewhere)
    assert f"belongs to bookie b1 of another cluster ({cookie.cluster_id})" in refused


async def test_a_directory_of_a_build_before_the_first_release_is_refused_in_one_sentence(
    tmp_path: Path, store: MemoryStore
) -> None:
    """Neither as damaged, nor as of a newer version."""
    cookie = await format_directory(tmp_path, "b1", store)
    (tmp_path / directory.COOKIE).write_text(json.dumps({"format_version": 1, **cookie.names}))
    assert await refusal_of_check(tmp_path, store) == (
        f"{tmp_path / directory.COOKIE} was written by a build older than the first release of bookledger, and "
        "no release can read it: use the directory with that build, or format an empty one"
    )


async def test_a_damaged_cookie_and_one_of_a_later_format_are_refused(
    tmp_path: Path, store: MemoryStore
) -> None:
    """Whatever the damage: fuzz/test_damaged_identity."""
    await format_directory(tmp_path, "b1", store)
    path = tmp_path / directory.COOKIE
    fields = json.loads(path.read_text()) | {"version": 2, "news": True}
    for written, why in (
        ("{}", "cannot be read"),
        (
            json.dumps(fields),
            "was written by a newer version of bookledger (this one knows format version 1)",
        ),
    ):
        path.write_text(written)
        assert why in await refusal_of_check(tmp_path, store)


@pytest.mark.parametrize(
    ("lost", "says"),
    [("log", "is missing"), ("index", "is missing"), ("log/00000000.log", "this bookie's entries are lost")],
)
async def test_a_bookie_that_lost_part_of_its_directory_does_not_come_up_empty(
    tmp_path: Path, store: MemoryStore, lost: str, says: str
) -> None:
    await format_directory(tmp_path, "b1", store)
    check_parts(tmp_path)
    shutil.rmtree(tmp_path / lost) if (tmp_path / lost).is_dir() else (tmp_path / lost).unlink()
    with pytest.raises(DataDirectoryError, match=says):
        check_parts(tmp_path)


# --- formats that were interrupted


async def begun(path: Path) -> FaultyStore:
    """The process that formats it as b1 dies as soon as its cookie is created."""
    store = FaultyStore()
    store.fail(KeyboardInterrupt(), calls=["create"], keys=keys.COOKIES, bad=1, done=True)
    with pytest.raises(KeyboardInterrupt):
        await format_directory(path, "b1", store)
    return store


async def test_a_format_interrupted_after_the_name_was_taken_is_finished_by_formatting_again(
    tmp_path: Path,
) -> None:
    store = await begun(tmp_path / "b1")
    assert "belongs to a bookie that is already formatted" in await refusal_of_format(
        tmp_path / "elsewhere", store
    )
    assert "for bookie b1 was interrupted" in await refusal_of_format(tmp_path / "b1", store, "b2")
    cookie = await format_directory(tmp_path / "b1", "b1", store)
    assert await check_cookie(tmp_path / "b1", store) == cookie


async def test_a_format_interrupted_while_it_wrote_its_first_file_begins_anew(
    tmp_path: Path, store: MemoryStore
) -> None:
    (tmp_path / "cookie.json.new").write_text("{")
    cookie: Cookie = await format_directory(tmp_path, "b1", store)
    assert await check_cookie(tmp_path, store) == cookie
