"""`bookledger demo` loses nothing, whatever the file and the store, and says in one line what it cannot do."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from pathlib import Path

import pytest

from bookledger.cli.demo.writer import create_ledger, ensemble_of
from bookledger.cli.processes import bookie_processes
from ledgers import LedgerClient, LedgerError
from tests.support.command_line import bookledger, children_left, fails_with_one_line
from tests.support.etcd import EtcdServer
from tests.support.long_runs import first_then_long

REPOSITORY = Path(__file__).parents[2]

FIRST_TRIES_MIN = 60
"""Three of four ledgers have a given bookie at once; that so many have is never seen."""


def check_demo(done: subprocess.CompletedProcess[bytes]) -> None:
    assert done.returncode == 0, done.stderr.decode()
    said = json.loads(done.stdout)
    assert said["ok"] is True
    assert said["sha256_read_back"] == said["sha256_of_the_file"]
    assert said["stale_writer"] == "LedgerFenced"
    assert said["fragments"] >= 2
    assert said["entries"] >= said["confirmed_before_the_kill"] > 0
    assert children_left() == []


def test_the_demo_loses_nothing_with_the_embedded_metadata() -> None:
    check_demo(bookledger("demo", "--json"))


def test_the_demo_loses_nothing_with_etcd(etcd: EtcdServer) -> None:
    check_demo(bookledger("demo", "--json", f"--metadata=etcd://{etcd.endpoint}/{uuid.uuid4()}"))


def test_the_demo_refuses_a_file_too_small_to_lose(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"x")
    done = bookledger("demo", str(tmp_path / "small"))
    assert done.returncode == 1
    assert b"too small" in done.stderr


@pytest.mark.long
@pytest.mark.parametrize("size", first_then_long([40_960, 65_535, 66_000, 300_000]))
def test_the_ensemble_of_a_small_file_changes_before_its_writer_dies(tmp_path: Path, size: int) -> None:
    (tmp_path / "small").write_bytes(os.urandom(size))
    check_demo(bookledger("demo", "--json", str(tmp_path / "small")))


@pytest.mark.long
def test_a_file_of_ten_records_is_enough(tmp_path: Path) -> None:
    (tmp_path / "tiny").write_bytes(b"0123456789")
    check_demo(bookledger("demo", "--json", "--record-bytes=1", str(tmp_path / "tiny")))
    line = fails_with_one_line("demo", "--json", "--record-bytes=2", str(tmp_path / "tiny"))
    assert "give a file of at least 20 bytes, or a smaller --record-bytes" in line


def test_the_demos_ledger_is_on_a_bookie_of_its_own_however_many_others_there_are(tmp_path: Path) -> None:
    """Ledgers that are not are deleted again, and there is an end to trying."""
    uri = f"sqlite://{tmp_path}/metadata.db"
    with bookie_processes(4, tmp_path, uri), LedgerClient(uri) as client:
        made = [create_ledger(client, ["bookie-4"]) for _ in range(FIRST_TRIES_MIN)]
        assert all("bookie-4" in ensemble_of(writer) for writer in made)
        with pytest.raises(LedgerError, match="30 ledgers in a row were placed on bookies other"):
            create_ledger(client, ["nobody"])
        kept = [record.ledger_id for record in client.list_ledgers()]
        assert kept == [writer.ledger_id for writer in made]
        assert kept != list(range(1, FIRST_TRIES_MIN + 1)), "some were placed on other bookies"


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("sqlite:///no/such/directory/m.db", "the directory /no/such/directory does not exist"),
        ("etcd://127.0.0.1:1/x?timeout=1", "did not answer"),
    ],
)
def test_a_store_that_cannot_be_used_is_one_line_before_anything_is_started(meta: str, says: str) -> None:
    assert says in fails_with_one_line("demo", "--json", meta)


@pytest.mark.parametrize("name", ["", 'a"b', "a'b", "a b", "a$HOME", "-n", "a;b", "a`b", "a\\b", "a#b", "*"])
def test_make_demo_hands_any_name_on_as_it_is(tmp_path: Path, name: str) -> None:
    """The Makefile beside a `bookledger` that prints what it is given."""
    (tmp_path / "Makefile").write_text((REPOSITORY / "Makefile").read_text())
    program = tmp_path / ".venv" / "bin" / "bookledger"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    for made in ("pyproject.toml", ".venv/bin/pip", ".venv/.ready"):  # the last one made is the newest
        (tmp_path / made).touch()
    command = ["make", "--no-print-directory", "demo", f"FILE={name}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60, check=True)
    _, *given = done.stdout.decode().splitlines()
    assert given == (["demo", "--", name] if name else ["demo"])
