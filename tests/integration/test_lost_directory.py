"""A bookie whose files are taken away under it ends, and confirms nothing that nobody will find again (rule B1)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bookledger.cli.processes import BookieProcess, bookie_processes
from ledgers import ClientConfig, LedgerError
from ledgers.aio import LedgerClient

QUICK = ClientConfig(append_seconds_max=2, append_quorum_seconds_max=2)
NOTICED_SECONDS_MAX = 20
FAILED = 1


def _is_exchanged(directory: Path) -> None:
    """The same files, but not those that the bookie has open: a file system mounted over them looks like this."""
    aside = directory.with_name("aside")
    os.rename(directory, aside)
    shutil.copytree(aside, directory)


LOSSES: dict[str, tuple[Callable[[Path], object], str]] = {
    "the log is removed": (lambda directory: shutil.rmtree(directory / "log"), "log"),
    "the open segment is removed": (lambda directory: _newest_segment(directory).unlink(), "log"),
    "all is removed": (shutil.rmtree, ""),
    "all is moved": (lambda directory: os.rename(directory, directory.with_name("aside")), ""),
    "all is exchanged": (_is_exchanged, ""),
}
IDLE_LOSSES: dict[str, tuple[Callable[[Path], object], str]] = {
    "the index is removed": (lambda directory: shutil.rmtree(directory / "index"), "index"),
    "the index's file is removed": (
        lambda directory: (directory / "index" / "data.mdb").unlink(),
        "index/data.mdb",
    ),
    "the cookie is removed": (lambda directory: (directory / "cookie.json").unlink(), "cookie.json"),
    "the count of its starts is removed": (lambda directory: (directory / "life").unlink(), "life"),
}


def _newest_segment(directory: Path) -> Path:
    return max((directory / "log").glob("*.log"))


def assert_it_ends(bookie: BookieProcess, lost: str) -> None:
    assert bookie.child.wait(NOTICED_SECONDS_MAX) == FAILED
    (line,) = [one for one in bookie.log.read_text().splitlines() if one.startswith("bookledger: ")]
    assert line.startswith(f"bookledger: {bookie.directory / lost}")
    assert "was removed, moved or mounted over while the bookie served from it" in line
    assert "format --replace" in line


@pytest.mark.parametrize(("lose", "lost"), LOSSES.values(), ids=list(LOSSES))
async def test_nothing_is_confirmed_into_files_that_were_taken_away(
    tmp_path: Path, lose: Callable[[Path], object], lost: str
) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    with bookie_processes(1, tmp_path, uri) as (bookie,):
        async with LedgerClient(uri, config=QUICK) as client:
            writer = await client.create_ledger(ensemble_size=1)
            await writer.append(b"found again")
            lose(bookie.directory)
            with pytest.raises(LedgerError):
                await writer.append(b"never to be found")
            assert writer.last_add_confirmed == 0
            await writer.abandon()
        assert_it_ends(bookie, lost)


@pytest.mark.parametrize(
    ("lose", "lost"), [*LOSSES.values(), *IDLE_LOSSES.values()], ids=[*LOSSES, *IDLE_LOSSES]
)
def test_an_idle_bookie_notices_too(tmp_path: Path, lose: Callable[[Path], object], lost: str) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    with bookie_processes(1, tmp_path, uri) as (bookie,):
        lose(bookie.directory)
        assert_it_ends(bookie, lost)


def test_a_bookie_whose_files_are_being_removed_puts_no_new_ones_in_their_place(tmp_path: Path) -> None:
    """Or whoever removes the directory would find it not empty."""
    uri = f"sqlite://{tmp_path}/metadata.db"
    with bookie_processes(1, tmp_path, uri) as (bookie,):
        for one in bookie.directory.iterdir():
            shutil.rmtree(one) if one.is_dir() else one.unlink()
        assert_it_ends(bookie, "")
        assert list(bookie.directory.iterdir()) == []
