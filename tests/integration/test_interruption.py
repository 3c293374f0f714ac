"""Long work that is stopped by Ctrl-C ends with 130, and says in one line what is done and how to go on."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from bookledger.cli.processes import BookieProcess, bookie_processes
from ledgers import LedgerClient
from tests.qjm_compat.transfer.made_directories import made_directory
from tests.support.command_line import bookledger, succeeds
from tests.support.made_clusters import a_large_cluster
from tests.support.processes import hung
from tests.support.stopping import SECONDS_MAX, await_connected, next_line, silent_server, started, stopped
from tests.support.waiting import until

TRIES_MAX = 20
"""Work that no peer can hold up may be done before the signal comes."""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stopping")


@pytest.fixture(scope="module")
def uri(directory: Path) -> str:
    return f"sqlite://{directory}/metadata.db"


@pytest.fixture(scope="module")
def bookies(uri: str, directory: Path) -> Iterator[list[BookieProcess]]:
    with bookie_processes(4, directory, uri) as running:
        yield running


def interrupted_read(uri: str, bookies: list[BookieProcess], output: Path) -> tuple[tuple[str, ...], str]:
    """Of a closed ledger, whose bookies hang; the command, and what it said."""
    with LedgerClient(uri) as client, client.create_ledger() as writer:
        writer.append(b"x" * 100)
    holders = {one.bookie_id for one in writer.record.fragments[0].ensemble}
    holding = [one for one in bookies if one.bookie_id in holders]
    arguments = ("ledger", "read", f"--metadata={uri}", str(writer.ledger_id), f"--output={output}")
    with hung(holding), started(*arguments) as program:
        await_connected(program, holding[0].port)
        return arguments, stopped(program)


def test_a_read_into_a_file_leaves_no_file(uri: str, bookies: list[BookieProcess], tmp_path: Path) -> None:
    arguments, said = interrupted_read(uri, bookies, tmp_path / "entries")
    assert said == (
        f"bookledger: interrupted; {tmp_path}/entries was not written; go on with: bookledger {' '.join(arguments)}\n"
    )
    assert not list(tmp_path.iterdir())
    assert bookledger(*arguments).returncode == 0, "the command that it names goes on"
    assert (tmp_path / "entries").read_bytes() == b"0\t" + b"x" * 100 + b"\n"


def test_a_read_into_a_directory_goes_on_with_the_same_command(
    uri: str, bookies: list[BookieProcess], tmp_path: Path
) -> None:
    arguments, said = interrupted_read(uri, bookies, tmp_path)
    assert said == (
        f"bookledger: interrupted; {tmp_path} has some of the entries, each of them complete; "
        f"go on with: bookledger {' '.join(arguments)}\n"
    )
    for _ in range(2):
        assert bookledger(*arguments).returncode == 0, "the command that it names goes on, also past its end"
        assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"x" * 100]


@pytest.mark.parametrize("command", ["bench", "demo", "journal bench"])
def test_what_has_bookies_of_its_own_leaves_none_of_them_and_nothing_of_theirs(command: str) -> None:
    with started(*command.split()) as program:
        until(lambda: len(psutil.Process(program.pid).children()) >= 3)
        children = psutil.Process(program.pid).children(recursive=True)
        said = stopped(program)
    end = f"interrupted; its bookies have ended, and their files are gone; go on with: bookledger {command}\n"
    assert said == f"bookledger: {end}"
    until(lambda: not any(child.is_running() for child in children))


@pytest.mark.usefixtures("bookies")
@pytest.mark.parametrize(
    ("number", "how"),
    [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "stopped"), (signal.SIGHUP, "stopped")],
)
def test_a_tail_says_what_was_printed(uri: str, number: signal.Signals, how: str) -> None:
    with LedgerClient(uri) as client, client.create_ledger() as writer:
        writer.append(b"one")
        writer.append(b"two")
        with started("ledger", "tail", f"--metadata={uri}", str(writer.ledger_id)) as program:
            assert [next_line(program) for _ in range(2)] == ["0\tone\n", "1\ttwo\n"]
            said = stopped(program, number)
    # What it has just printed it may not have noted yet.
    noted = r"the entries up to (0|1) are printed, perhaps more; go on with --first [12]"
    nothing = r"perhaps no entry was printed; go on with: bookledger ledger tail .*"
    assert re.fullmatch(f"bookledger: {how}; ({noted}|{nothing})\n", said), said


def test_a_listing_that_is_stopped_names_the_ledger_to_go_on_with(tmp_path: Path) -> None:
    arguments = ("ledger", "list", f"--metadata={asyncio.run(a_large_cluster(tmp_path, 2000))}", "--json")
    with started(*arguments) as program:  # whoever reads takes two lines, and a pipe has no room for all
        # What it has just printed it may not have noted yet.
        assert [json.loads(next_line(program))["ledger_id"] for _ in range(2)] == [1, 2]
        said = stopped(program)
    how = r"ledgers up to (\d+) are printed, perhaps more; go on with --first (\d+)"
    told = re.fullmatch(f"bookledger: interrupted; {how}\n", said)
    assert told and int(told[2]) == int(told[1]) + 1 < 2000, said
    rest = bookledger(*arguments, "--first", told[2]).stdout.splitlines()
    assert [json.loads(line)["ledger_id"] for line in rest] == list(range(int(told[2]), 2001))


@pytest.mark.usefixtures("bookies")
def test_a_drain_goes_on_without_whoever_waited_for_it(uri: str) -> None:
    with LedgerClient(uri) as client, client.create_ledger() as writer:  # what is open does not move
        writer.append(b"x")
        name = writer.record.fragments[0].ensemble[0].bookie_id
        arguments = ("bookie", "drain", f"--metadata={uri}", name, "--wait")
        with started(*arguments) as program:
            assert " left" in next_line(program)
            said = stopped(program)
        assert said == (
            "bookledger: interrupted; the order is in effect, and bookies continue without this command; "
            f"wait for them with: bookledger {' '.join(arguments)}, or cancel it with: "
            f"bookledger bookie drain {name} --cancel\n"
        )
        assert bookledger("bookie", "drain", name, "--cancel", f"--metadata={uri}").returncode == 0


def test_a_repair_says_which_bookies_are_done(meta: str, bookies: list[BookieProcess]) -> None:
    one, other = sorted(bookies, key=lambda bookie: bookie.bookie_id)[:2]
    arguments = ("bookie", "repair", meta, one.bookie_id, other.bookie_id)
    with hung([other]), started(*arguments) as program:
        await_connected(program, other.port)
        said = stopped(program)
    assert said == (
        f"bookledger: interrupted; {one.bookie_id} finished, and the work of the others is kept; "
        f"go on with: bookledger {' '.join(arguments)}\n"
    )


@pytest.mark.usefixtures("bookies")
def test_a_backup_and_a_restoring_that_are_stopped_leave_nothing_half_done(meta: str, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    assert bookledger("metadata", "backup", meta, str(whole)).returncode == 0
    with silent_server() as port:
        silent = f"--metadata=etcd://127.0.0.1:{port}/x?timeout=60"
        arguments = ("metadata", "backup", silent, f"{tmp_path}/half")
        with started(*arguments) as program:
            await_connected(program, port)
            said = stopped(program)
        assert said.startswith(
            f"bookledger: interrupted; {tmp_path}/half was not written; begin again with: bookledger "
        )
        assert list(tmp_path.iterdir()) == [whole]
        with started("metadata", "restore", silent, str(whole)) as program:
            await_connected(program, port)
            said = stopped(program)
    assert (
        said.startswith("bookledger: interrupted; 0 of ")
        and " keys are written, which is not yet a cluster; " in said
    )
    assert said.count("\n") == 1


def test_work_on_journals_says_how_to_go_on(tmp_path: Path) -> None:
    edits = made_directory(tmp_path / "edits")
    with silent_server() as port:
        meta = f"--metadata=etcd://127.0.0.1:{port}/x?timeout=60"
        for arguments, how in (
            (
                ("import", meta, "ns1", str(edits)),
                "0 bytes were imported, and are not written again; go on",
            ),
            (
                ("export", meta, "ns1", f"{tmp_path}/out"),
                "0 bytes were exported; complete files are kept, and not written again; go",
            ),
            (("fsck", meta, "ns1"), "nothing was changed, and the check is incomplete; begin again with"),
            (("recover", meta, "ns1"), "nothing is lost, and only a new writer can continue; go on with"),
        ):
            with started("journal", *arguments) as program:
                await_connected(program, port)
                said = stopped(program)
            assert said.startswith(f"bookledger: interrupted; {how}"), said
            assert f"with: bookledger journal {arguments[0]} " in said and said.count("\n") == 1


def test_an_index_that_is_being_made_anew_is_made_by_the_next_run(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    with bookie_processes(1, tmp_path, uri) as (bookie,):
        shape = ("--ensemble=1", "--write-quorum=1", "--ack-quorum=1")
        succeeds("ledger", "append", f"--metadata={uri}", *shape, stdin=b"line\n" * 100_000)
        data = bookie.directory
    arguments = ("bookie", "rebuild-index", "--data", str(data))
    said = next(filter(None, (_stopped_in_the_middle(data, *arguments) for _ in range(TRIES_MAX))))
    assert said == (
        "bookledger: interrupted; the old index is in place, and the log is unchanged; "
        f"go on with: bookledger {' '.join(arguments)}\n"
    )
    assert bookledger("bookie", "check", "--data", str(data)).returncode == 0
    assert bookledger(*arguments).returncode == 0
    assert bookledger("bookie", "check", "--data", str(data)).returncode == 0


def _stopped_in_the_middle(data: Path, *arguments: str) -> str:
    """What was said; nothing where it was faster than the signal."""
    with started(*arguments) as program:
        until(lambda: (data / "index.new").exists() or program.poll() is not None)
        program.send_signal(signal.SIGINT)
        _, said = program.communicate(timeout=SECONDS_MAX)
    assert program.returncode == (130 if said else 0), said
    return said
