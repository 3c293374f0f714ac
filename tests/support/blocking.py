"""Blocking code against bookies that the test's own loop serves, in threads and child processes."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from tests.support.in_process import cluster_of
from tests.support.interpreter import WARNS_NOT_OF_FORKS

ROOT = Path(__file__).parent.parent.parent
THREAD_SECONDS_MAX = 30.0


async def use_on_bookies(tmp_path: Path, use_it: Callable[[str], None], bookies: int = 3) -> None:
    """Runs blocking code, which is given the metadata URI, in a thread of its own."""
    async with cluster_of(tmp_path, bookies) as cluster:
        await asyncio.to_thread(use_it, cluster.uri)


async def run_script(script: str, *arguments: str, seconds_max: float = 20.0) -> tuple[int, str]:
    """Exit code and output of a child process; one that does not end in time is killed, and fails the test."""
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        *WARNS_NOT_OF_FORKS,
        "-c",
        script,
        *arguments,
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(seconds_max):
            output, _ = await child.communicate()
    except TimeoutError:
        child.kill()
        output, _ = await child.communicate()
        raise AssertionError(f"it hung after saying {output.decode()!r}") from None
    assert child.returncode is not None
    return child.returncode, output.decode()


def in_thread(work: Callable[[], object]) -> Callable[[], object]:
    """Starts `work` in a thread; calling what is returned waits for its result, or for what it raised."""
    outcome: list[object] = []

    def note() -> None:
        try:
            outcome.append(work())
        except BaseException as error:  # handed to the test, which looks at it
            outcome.append(error)

    thread = threading.Thread(target=note, daemon=True)
    thread.start()

    def result() -> object:
        thread.join(THREAD_SECONDS_MAX)
        assert not thread.is_alive(), "it hangs"
        return outcome[0]

    return result
