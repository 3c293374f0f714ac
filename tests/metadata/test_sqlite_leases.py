"""Leases in a file keep their length by one monotonic clock: no step of the wall clock, no boot and no other clock that
looks at the file makes one longer, or ends one that is renewed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from metadata.errors import LeaseLost
from metadata.sqlite.clock import LeaseClock
from metadata.sqlite.store import SqliteStore
from metadata.store import Lease
from tests.support import stepped_clock
from tests.support.stepped_clock import SteppedClock

TTL_SECONDS = 10.0
REPOSITORY = Path(__file__).parents[2]
PROCESS_SECONDS_MAX = 60

STEP = """
import asyncio, os, sys, time
from pathlib import Path
from metadata.sqlite.store import SqliteStore

async def main(path: str, seconds: int, ttl_seconds: float) -> None:
    store = SqliteStore(path)
    lease = await store.grant_lease(ttl_seconds)
    await store.create("a", b"", lease=lease)
    before = time.time()
    Path(os.environ["STEPPED_CLOCK"]).write_text(str(seconds))
    assert abs(time.time() - before) > abs(seconds) / 2, "the wall clock was not stepped"
    left = await store.lease_left("a")
    assert left is not None and left <= ttl_seconds, left
    if seconds < 0:
        async with asyncio.timeout(20 * ttl_seconds):
            while await store.get("a") is not None:
                await asyncio.sleep(ttl_seconds / 10)
    else:
        await store.keep_lease(lease)
        assert await store.get("a") is not None
    await store.close()

asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
"""


@dataclass
class SetClock(LeaseClock):
    """A clock that a test sets."""

    name: str
    seconds: float = 1000.0

    def now(self) -> float:
        return self.seconds


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "meta.db"


@asynccontextmanager
async def on_clocks(path: Path, *clocks: SetClock) -> AsyncIterator[tuple[Lease, list[SqliteStore]]]:
    """A store for each clock; the first has granted the lease, under which `a` stands."""
    stores = [SqliteStore(str(path), clock=clock) for clock in clocks]
    lease = await stores[0].grant_lease(TTL_SECONDS)
    await stores[0].create("a", b"", lease=lease)
    yield lease, stores
    for store in stores:
        await store.close()


@pytest.mark.parametrize("seconds", [3.0, 50_000.0], ids=["behind the old boot's clock", "ahead of it"])
async def test_a_lease_of_an_earlier_boot_ends_its_own_length_after_the_file_is_looked_at(
    path: Path, seconds: float
) -> None:
    """The two clocks say nothing about each other."""
    now = SetClock("now", seconds)
    async with on_clocks(path, SetClock("before"), now) as (lease, (_, store)):
        assert await store.lease_left("a") == TTL_SECONDS
        now.seconds += TTL_SECONDS - 0.1
        assert await store.get("a") is not None
        now.seconds += 0.1
        assert await store.get("a") is None
        with pytest.raises(LeaseLost):
            await store.keep_lease(lease)


async def test_a_lease_that_its_holder_renews_lives_for_whoever_has_another_clock_too(path: Path) -> None:
    mine, other = SetClock("mine"), SetClock("other", 5.0)
    async with on_clocks(path, mine, other) as (lease, (holder, store)):
        for _ in range(5):
            assert await store.get("a") is not None
            mine.seconds += TTL_SECONDS - 1
            other.seconds += TTL_SECONDS - 1
            await holder.keep_lease(lease)
        assert await store.get("a") is not None
        other.seconds += TTL_SECONDS
        assert await store.get("a") is None


async def test_two_clocks_that_look_by_turns_do_not_keep_a_dead_holders_lease(path: Path) -> None:
    one, two = SetClock("one"), SetClock("two", 5.0)
    async with on_clocks(path, one, two) as (_, stores):
        for _ in range(4):
            for store in stores:
                assert await store.get("a") is not None
            one.seconds += TTL_SECONDS / 4
            two.seconds += TTL_SECONDS / 4
        assert await stores[1].get("a") is None


async def test_no_lease_lasts_longer_than_its_length_from_now_whatever_the_file_says(path: Path) -> None:
    """As where a kernel has no boot id, and an earlier boot's clock was ahead."""
    clock = SetClock("")
    async with on_clocks(path, clock) as (_, (store,)):
        clock.seconds = 3.0
        assert await store.lease_left("a") == TTL_SECONDS
        clock.seconds += TTL_SECONDS
        assert await store.get("a") is None


@pytest.mark.parametrize(("seconds", "ttl_seconds"), [(-3600, 0.5), (3600, 60.0)], ids=["back", "forward"])
def test_a_step_of_the_wall_clock_neither_keeps_the_dead_nor_ends_the_living(
    path: Path, tmp_path: Path, seconds: int, ttl_seconds: float
) -> None:
    clock = SteppedClock(stepped_clock.compiled(tmp_path), tmp_path / "clock")
    done = subprocess.run(
        [sys.executable, "-c", STEP, str(path), str(seconds), str(ttl_seconds)],
        env={"PYTHONPATH": str(REPOSITORY), **clock.environment},
        capture_output=True,
        timeout=PROCESS_SECONDS_MAX,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_all_processes_of_one_boot_read_one_clock() -> None:
    script = "from metadata.sqlite.clock import LeaseClock; c = LeaseClock(); print(c.name, c.now(), sep='|')"
    clock = LeaseClock()
    before = clock.now()
    told = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, check=True)
    name, now = told.stdout.decode().strip().split("|")
    assert name == clock.name
    assert before <= float(now) <= clock.now()
