"""The SQLite store keeps the contract, also between processes, and says clearly what it cannot use."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import pytest

from metadata.errors import BadMetadataUri, OutcomeUnknown, StoreUnavailable
from metadata.sqlite import file_lock
from metadata.sqlite import store as sqlite_module
from metadata.sqlite.sqlite_file import PAGE_AFTER, PAGE_FROM
from metadata.sqlite.store import SqliteStore
from metadata.store import EventKind, MetadataStore, Versioned
from tests.contracts.metadata_store import EVENTS_KEPT, MetadataStoreContract, watching
from tests.metadata.test_sqlite_leases import SetClock
from tests.support.aio import cancel, take
from tests.support.present import there

PROCESSES = 4
INCREMENTS_PER_PROCESS = 50
PROCESS_SECONDS_MAX = 60
REPOSITORY = Path(__file__).parents[2]

INCREMENT = f"""
import asyncio, sys
from metadata.sqlite.store import SqliteStore
from tests.contracts.metadata_store import increment

async def main() -> None:
    store = SqliteStore(sys.argv[1])
    for _ in range({INCREMENTS_PER_PROCESS}):
        await increment(store, "counter")
    await store.close()

asyncio.run(main())
"""

DIE_IN_A_TRANSACTION = """
import asyncio, os, sys
from metadata.sqlite.store import SqliteStore
from metadata.sqlite import sqlite_file

async def main() -> None:
    store = SqliteStore(sys.argv[1])
    await store.create("before", b"")
    sqlite_file.SqliteFile._record = lambda *_: os._exit(9)
    await store.create("during", b"")

asyncio.run(main())
"""

FULL_DISK = """
import asyncio, os, resource, sys
from metadata.errors import StoreUnavailable
from metadata.sqlite.store import SqliteStore

async def main() -> None:
    store = SqliteStore(sys.argv[1])
    version = await store.create("a", b"one")
    used = max(os.path.getsize(sys.argv[1] + end) for end in ("", "-wal"))
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (used, hard))
    try:
        await store.create("b", b"x" * 100_000)
    except StoreUnavailable as error:
        print(type(error).__name__, error)
    assert (await store.get("a")).version == version
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    if (found := await store.get("b")) is None:
        await store.create("b", b"two")
    await store.create("c", b"three")
    await store.close()

asyncio.run(main())
"""

STUCK = """
import asyncio, sys
from metadata.errors import StoreUnavailable
from metadata.sqlite import file_lock
from metadata.sqlite.store import SqliteStore

async def main() -> None:
    store = SqliteStore(sys.argv[1])
    await store.open()
    file_lock.LOCK_SECONDS_MAX = 0.1
    print("opened", flush=True)
    sys.stdin.readline()
    try:
        await store.create("a", b"")
    except StoreUnavailable as error:
        print("has been locked for" in str(error))
    await store.close()

asyncio.run(main())
"""


def python(program: str, path: Path) -> tuple[int, str]:
    """Runs the program in a process of its own; returns its exit code and what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
        timeout=PROCESS_SECONDS_MAX,
        check=False,
    )
    return done.returncode, done.stdout


class TestSqliteStore(MetadataStoreContract):
    ttl_seconds = 0.5

    @pytest.fixture(autouse=True)
    def _path(self, tmp_path: Path) -> None:
        self.path = tmp_path / "meta.db"

    async def open_store(self) -> MetadataStore:
        return SqliteStore(str(self.path), events_kept_max=EVENTS_KEPT)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "meta.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    """Which opens its file at the first call."""
    store = SqliteStore(str(path))
    yield store
    await store.close()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds the lock as another process in a write transaction does."""
    with open(f"{path}.lock", "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


@contextmanager
def stopped_in_a_write(path: Path) -> Iterator[int]:
    """The id of a process that has the lock, and is stopped."""
    program = (
        f"import fcntl; f = open('{path}.lock'); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); input()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=-1, stdout=-1) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        holder.send_signal(signal.SIGSTOP)
        yield holder.pid
        holder.kill()


async def opened(path: Path) -> None:
    store = SqliteStore(str(path))
    try:
        await store.open()
    finally:
        await store.close()


async def test_a_process_that_is_stopped_while_it_writes_is_named_and_the_lock_is_left_to_others_meanwhile(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_lock, "LOCK_SECONDS_MAX", 0.1)
    await store.open()
    with stopped_in_a_write(path) as pid:
        for key in ("a", "b"):
            with pytest.raises(StoreUnavailable, match=rf"kill -CONT {pid}\)"):
                await store.create(key, b"")
    with locked(path):  # what waited gave it back, for nobody wanted it by then
        assert await store.get("a") is None
    assert await store.create("a", b"") > 0


def test_a_program_ends_though_another_process_keeps_the_lock(path: Path) -> None:
    command = [sys.executable, "-c", STUCK, str(path)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdin=-1, stdout=-1, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "opened\n"
        with locked(path):
            said, _ = program.communicate("\n", timeout=PROCESS_SECONDS_MAX)
    assert (said, program.returncode) == ("True\n", 0)


async def test_increments_by_several_processes_are_all_counted(store: SqliteStore, path: Path) -> None:
    await store.create("counter", b"0")
    processes = [asyncio.to_thread(python, INCREMENT, path) for _ in range(PROCESSES)]
    assert await asyncio.gather(*processes) == [(0, "")] * PROCESSES
    found = there(await store.get("counter"))
    assert int(found.value) == PROCESSES * INCREMENTS_PER_PROCESS
    async with watching(store, "counter", 0) as events:
        seen = await take(int(found.value) + 1, events)
    assert [int(event.value) for event in seen] == list(range(int(found.value) + 1))


async def test_a_process_that_dies_in_a_transaction_leaves_nothing_of_it_and_no_lock(
    store: SqliteStore, path: Path
) -> None:
    assert python(DIE_IN_A_TRANSACTION, path) == (9, "")
    assert [item.key for item in (await store.list_page("")).items] == ["before"]
    await store.create("after", b"")


async def test_a_reopened_file_keeps_its_keys_versions_history_and_leases(path: Path) -> None:
    store = SqliteStore(str(path))
    former = await store.grant_lease(60)
    version = await store.create("a", b"one", lease=former)
    await store.close()
    store = SqliteStore(str(path))
    assert await store.get("a") == Versioned("a", b"one", version)
    assert (await store.grant_lease(60)).lease_id != former.lease_id
    async with watching(store, "a", version - 1) as events:
        assert (await anext(events)).value == b"one"
    assert await store.create("b", b"") > version
    await store.close()


async def test_a_lease_that_ran_out_while_nobody_had_the_file_open_is_gone(path: Path) -> None:
    for clock in (SetClock("now"), SetClock("now", 1000.0 + 60.0)):
        store = SqliteStore(str(path), clock=clock)
        if clock.seconds == 1000.0:
            await store.create("a", b"one", lease=await store.grant_lease(60.0))
            await store.close()
    assert await store.get("a") is None
    async with watching(store, "a", 0) as events:
        kinds = [event.kind for event in await take(2, events)]
    assert kinds == [EventKind.PUT, EventKind.DELETE]
    await store.close()


async def test_the_file_and_its_lock_are_readable_by_their_owner_alone(path: Path) -> None:
    await opened(path)
    for file in (path, Path(f"{path}.lock")):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def sql(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(statement)


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("a directory", "unable to open database file"),
        ("no database", "file is not a database"),
        ("another program's database", "another program"),
        ("a file of another version", "format version 2, but this program reads version 1"),
    ],
)
async def test_what_is_no_file_of_ours_is_refused_left_alone_and_not_kept_open(
    path: Path, what: str, why: str
) -> None:
    """Also while somebody keeps the error, and with its traceback all that opening had in hand."""
    if what == "a directory":
        path.mkdir()
    elif what == "no database":
        path.write_bytes(b"these are my holiday notes\n" * 1000)
    elif what == "another program's database":
        sql(path, "CREATE TABLE store (format_version)")
    else:
        await opened(path)
        sql(path, "UPDATE store SET format_version = 2")
    content = None if path.is_dir() else path.read_bytes()
    with pytest.raises(BadMetadataUri, match=why) as refusal:
        await opened(path)
    assert content is None or path.read_bytes() == content
    assert str(path) not in [file.path for file in psutil.Process().open_files()]
    assert refusal.value.__traceback__ is not None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
async def test_a_file_that_may_not_be_written_is_refused(path: Path) -> None:
    await opened(path)
    path.chmod(0o400)
    with pytest.raises(BadMetadataUri, match="readonly"):
        await opened(path)


async def test_a_file_that_is_taken_away_takes_nothing_until_it_is_back(
    store: SqliteStore, path: Path
) -> None:
    """What would be written to it meanwhile nobody could open any more."""
    away = path.with_name("away.db")
    await store.create("a", b"1")
    path.rename(away)
    for call in (store.create("b", b"2"), store.get("a"), store.health(), store.grant_lease(1.0)):
        with pytest.raises(StoreUnavailable, match=f"{path} is missing: put it back"):
            await call
    away.rename(path)
    found = await store.get("a")
    assert found is not None and found.value == b"1"
    assert await store.get("b") is None
    assert (await store.health()).size_bytes > 0


async def test_a_file_that_was_put_back_from_a_copy_is_used_from_then_on_and_loses_nothing_to_the_former_one(
    path: Path,
) -> None:
    """Closing the former one leaves the log beside the file alone, which has another one's newest changes."""
    store, late, another = SqliteStore(str(path)), SqliteStore(str(path)), SqliteStore(str(path))
    await store.create("a", b"1")
    assert await late.get("a") is not None
    with closing(sqlite3.connect(path)) as live, closing(sqlite3.connect(path.with_name("copy.db"))) as saved:
        live.backup(saved)
    await store.create("of the former file", b"2")
    for suffix in ("-wal", "-shm", ""):
        path.with_name(path.name + suffix).unlink()
    path.write_bytes(b"")  # as a copy that has just begun
    with pytest.raises(StoreUnavailable, match="the file is empty"):
        await store.get("a")
    path.with_name("copy.db").rename(path)
    await another.create("b", b"3")
    newest = path.with_name(path.name + "-wal").stat()
    assert newest.st_size > 0 and await late.get("of the former file") is None
    assert path.with_name(path.name + "-wal").stat().st_ino == newest.st_ino
    await store.create("c", b"4")
    for one in (store, late, another):
        assert [await one.get(key) is not None for key in "abc"] == [True, True, True]
        await one.close()


def test_a_full_disk_is_reported_and_the_store_works_again_afterwards(path: Path) -> None:
    exit_code, output = python(FULL_DISK, path)
    assert exit_code == 0
    assert output.startswith(("OutcomeUnknown metadata file", "StoreUnavailable metadata file"))


async def test_a_call_gives_up_while_another_process_holds_the_lock(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_module, "CALL_SECONDS_MAX", 0.3)
    await store.open()
    with locked(path):
        running = asyncio.ensure_future(store.create("a", b""))
        await asyncio.sleep(0)
        queued = asyncio.ensure_future(store.create("b", b""))
        with pytest.raises(OutcomeUnknown, match="no answer from the metadata file"):
            await running
        with pytest.raises(StoreUnavailable) as never_started:
            await queued
        assert not isinstance(never_started.value, OutcomeUnknown)
    assert await store.get("a") is not None
    assert await store.get("b") is None


async def test_the_event_loop_runs_on_while_the_file_is_locked(store: SqliteStore, path: Path) -> None:
    await store.open()
    with locked(path):
        creating = asyncio.ensure_future(store.create("a", b""))
        for _ in range(100):
            await asyncio.sleep(0.001)
        assert not creating.done()
    await creating


async def test_a_cancelled_watch_leaves_the_store_working(store: SqliteStore) -> None:
    async with watching(store, "a", 0) as events:
        waiting = asyncio.ensure_future(anext(events))
        await asyncio.wait([waiting], timeout=0.1)
        await cancel(waiting)
    assert await store.create("a", b"") == 1


async def test_a_page_costs_the_same_wherever_in_a_long_listing_it_begins(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "metadata.db"))
    await store.create("a/0", b"")
    await store.close()
    with sqlite3.connect(tmp_path / "metadata.db") as db:
        rows = ((f"ledgers/{n:08}", b"value", 1) for n in range(20_000))
        db.executemany("INSERT INTO keys (key, value, version) VALUES (?, ?, ?)", rows)
        begin = _steps(db, PAGE_FROM, "ledgers/")
        assert _steps(db, PAGE_AFTER, "ledgers/00019900") <= begin + 1
    db.close()


def _steps(db: sqlite3.Connection, query: str, begin: str) -> int:
    """How much SQLite does for a page, in hundreds of its instructions."""
    ticks: list[None] = []
    db.set_progress_handler(lambda: ticks.append(None), 100)
    assert len(db.execute(query, (begin, b"ledgers0", 50)).fetchall()) == 50
    db.set_progress_handler(None, 0)
    return len(ticks)
