"""A bookie is neither formatted nor run with an etcd that may lose confirmed writes, unless an option accepts that."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bookledger.cli.processes import BookieProcess
from tests.support.aio import run
from tests.support.command_line import bookledger
from tests.support.model_etcd import ModelEtcd

REFUSED = (
    "bookledger: etcd is version 3.5.1, which may lose confirmed writes: upgrade it to 3.5.6 or newer, or accept that "
    "with --accept-unsafe-etcd\n"
)


@pytest.fixture(autouse=True)
def unaccepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever etcd the other tests have."""
    monkeypatch.delenv("BOOKLEDGER_ACCEPT_UNSAFE_ETCD", raising=False)


def over(version: str, work: Callable[[str], None]) -> None:
    """Does it beside an etcd of this version, with a cluster's URI."""

    async def scenario() -> None:
        etcd = ModelEtcd()
        etcd.version = version
        async with etcd.serving() as endpoint:
            await asyncio.to_thread(work, f"etcd://{endpoint}/prod")

    run(scenario())


def command(name: str, uri: str, data: Path, *options: str) -> subprocess.CompletedProcess[bytes]:
    return bookledger("bookie", name, f"--metadata={uri}", f"--data={data}", *options)


def test_it_is_not_formatted_and_nothing_is_written(tmp_path: Path) -> None:
    def work(uri: str) -> None:
        refused = command("format", uri, tmp_path / "b1", "--id=b1")
        assert (refused.returncode, refused.stderr.decode()) == (1, REFUSED)
        assert not (tmp_path / "b1").exists()
        done = command("format", uri, tmp_path / "b1", "--id=b1", "--accept-unsafe-etcd")
        assert done.returncode == 0 and b"3.5.1" in done.stderr
        accepted = {**os.environ, "BOOKLEDGER_ACCEPT_UNSAFE_ETCD": "1"}
        whose = (f"--metadata={uri}", f"--data={tmp_path / 'b2'}", "--id=b2")
        assert bookledger("bookie", "format", *whose, env=accepted).returncode == 0

    over("3.5.1", work)


def test_it_does_not_start_unless_that_is_accepted(tmp_path: Path) -> None:
    def work(uri: str) -> None:
        bookie = BookieProcess("b1", tmp_path / "b1", uri, options=("--accept-unsafe-etcd",))
        bookie.format()
        refused = command("run", uri, tmp_path / "b1", "--port=0")
        assert (refused.returncode, refused.stderr.decode()) == (1, REFUSED)
        bookie.start()
        assert bookie.stop() == 0
        assert "etcd is version 3.5.1, which may lose confirmed writes" in bookie.log.read_text()

    over("3.5.1", work)


def test_one_that_lacks_what_is_needed_is_refused_all_the_same(tmp_path: Path) -> None:
    def work(uri: str) -> None:
        refused = command("format", uri, tmp_path / "b1", "--id=b1", "--accept-unsafe-etcd")
        assert (refused.returncode, refused.stderr) == (
            1,
            b"bookledger: etcd is version 3.3.25; use 3.4 or newer\n",
        )

    over("3.3.25", work)
