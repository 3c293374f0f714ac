"""What a command says of what cannot be: one line in words, and an exit code that tells whose fault it was."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bookledger.cli.processes import BookieProcess, started
from ledgers import LedgerClient
from metadata.sqlite.sqlite_uri import uri_of
from tests.support import stopping
from tests.support.command_line import bookledger, succeeds

ONE = ("--ensemble=1", "--write-quorum=1", "--ack-quorum=1")


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = tmp_path_factory.mktemp("one-bookie")
    uri = uri_of(path / "metadata.db")
    with started([BookieProcess("b1", path / "b1", uri)]):
        yield uri


def ledger_with(uri: str, entries: int) -> str:
    text = b"".join(b"%d\n" % n for n in range(entries))
    done = succeeds("ledger", "append", *ONE, "--json", f"--metadata={uri}", stdin=text)
    return str(json.loads(done)["ledger_id"])


def said(*arguments: str, code: int, stdin: bytes = b"") -> str:
    """On stderr, by a command that prints nothing and ends so."""
    done = bookledger(*arguments, stdin=stdin)
    assert (done.returncode, done.stdout) == (code, b""), (arguments, done)
    assert b"Traceback" not in done.stderr and b"Errno" not in done.stderr
    return done.stderr.decode()


@pytest.mark.parametrize("command", ["read", "tail"])
def test_an_id_past_the_end_of_a_closed_ledger_is_an_error_that_names_the_end(
    uri: str, meta: str, command: str
) -> None:
    closed, empty = ledger_with(uri, 3), ledger_with(uri, 0)
    for first in ("3", "4000"):
        told = said("ledger", command, closed, "--first", first, meta, code=1)
        assert f"ledger {closed} has no readable entry {first}; its last confirmed entry is 2" in told
    told = said("ledger", command, empty, "--first=0", meta, code=1)
    assert f"ledger {empty} has no readable entry 0; no entry is confirmed" in told
    assert said("ledger", command, empty, meta, code=0) == "", "nobody asked for an entry of it"
    assert bookledger("ledger", command, closed, "--first=2", meta).stdout == b"2\t2\n"


def test_an_id_past_what_is_confirmed_is_an_error_for_who_reads_and_told_to_who_follows(
    uri: str, meta: str
) -> None:
    with LedgerClient(uri) as client:
        writer = client.create_ledger(ensemble_size=1)
        ledger_id = str(writer.ledger_id)
        told = said("ledger", "read", ledger_id, "--first=1", meta, code=1)
        assert f"ledger {ledger_id} has no readable entry 1; no entry is confirmed" in told
        told = said("ledger", "tail", ledger_id, "--first=9", "--timeout=0", meta, code=0)
        assert f"ledger {ledger_id} has no entry yet: waiting for entry 9" in told
        with stopping.started("ledger", "tail", ledger_id, "--first=9", meta) as following:
            assert following.stderr is not None
            assert "waiting for entry 9" in following.stderr.readline()
            writer.append(b"the only one")
            writer.close()
            assert "no readable entry 9; its last confirmed entry is 0" in following.stderr.readline()
            assert following.wait(30) == 1


def test_a_file_that_cannot_be_written_is_named_in_words(uri: str) -> None:
    ledger_id = ledger_with(uri, 1)
    told = said("ledger", "read", ledger_id, "--output=/proc/x", f"--metadata={uri}", code=1)
    assert told.startswith("bookledger: /proc/x cannot be written: ")
    told = said("--audit-log", "/no/where/x", "ledger", "list", f"--metadata={uri}", code=1)
    assert told == "bookledger: --audit-log /no/where/x cannot be written: No such file or directory\n"


def test_a_dash_is_standard_output(uri: str) -> None:
    done = bookledger("ledger", "read", ledger_with(uri, 1), "--output=-", f"--metadata={uri}")
    assert (done.returncode, done.stdout) == (0, b"0\t0\n")


def test_where_nobody_answers_nothing_is_deleted_and_a_no_is_no_interrupt(uri: str) -> None:
    ledger_id, meta = ledger_with(uri, 1), f"--metadata={uri}"
    assert "there is no answer on standard input" in (
        told := said("ledger", "delete", ledger_id, meta, code=2)
    )
    assert "give --yes" in told
    told = said("ledger", "delete", ledger_id, meta, code=1, stdin=b"n\n")
    assert "the answer was no, and nothing was done" in told
    assert bookledger("ledger", "delete", ledger_id, meta, stdin=b"y\n").returncode == 0


def test_entries_that_were_printed_before_an_interrupt_are_not_to_be_printed_again(
    uri: str, tmp_path: Path
) -> None:
    """A page of short entries, of which a slow reader has taken some only."""
    ledger_id = ledger_with(uri, 50_000)
    with (
        (tmp_path / "said").open("wb") as errors,
        subprocess.Popen(
            [sys.executable, "-m", "bookledger", "ledger", "read", ledger_id, f"--metadata={uri}"],
            stdout=subprocess.PIPE,
            stderr=errors,
        ) as reading,
    ):
        assert reading.stdout is not None
        first = reading.stdout.readline()
        assert first == b"0\t0\n"
        reading.send_signal(2)
        rest = reading.stdout.read()
        assert reading.wait(30) == 130
    told = (tmp_path / "said").read_text()
    next_entry = 0 if "perhaps no entry was printed" in told else int(told.split("--first ")[1])
    printed = int((first + rest).splitlines()[-1].split(b"\t")[0])
    assert 0 <= next_entry <= printed + 1
    assert printed - next_entry <= 1, "no more than the entry that was under way is printed twice"
