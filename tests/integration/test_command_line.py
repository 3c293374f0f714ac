"""What every command has in common: exit codes, one clear line for what goes wrong, its output."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bookledger.cli.messages.exit_codes import ExitCode
from tests.support.command_line import bookledger, fails_with_one_line


def test_bookie_info_shows_every_live_bookie(meta: str) -> None:
    said = [json.loads(line) for line in bookledger("bookie", "info", "--json", meta).stdout.splitlines()]
    assert [row["bookie_id"] for row in said] == ["bookie-1", "bookie-2", "bookie-3"]
    assert {row["state"] for row in said} == {"serving"}


def test_bookie_info_asks_for_the_cluster_or_a_directory() -> None:
    done = bookledger("bookie", "info")
    assert (done.returncode, done.stdout) == (2, b"")
    assert "give --metadata URI for live bookies, or --data DIR" in done.stderr.decode()


# --- standard input, output and error


def shell(command: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Runs a line of shell in which `$B` is bookledger and `$1` … are the arguments."""
    return subprocess.run(
        ["bash", "-c", f"B='{sys.executable} -m bookledger'; {command}", "bash", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=False,
    )


def test_a_closed_standard_output_is_one_line_and_nothing_is_done(tmp_path: Path) -> None:
    done = shell("$B standalone --data $1/data >&-", str(tmp_path))
    assert done.returncode == 1
    assert done.stderr == b"bookledger: standard output is closed; redirect it to /dev/null to discard it\n"
    assert list(tmp_path.iterdir()) == []


def test_a_full_output_is_one_line(uri: str) -> None:
    done = shell("$B ledger list --metadata $1 >/dev/full", uri)
    assert done.returncode == 1
    assert done.stderr == b"bookledger: standard output cannot be written: No space left on device\n"


def test_input_that_cannot_be_read_is_not_told_as_output_that_cannot_be_written(meta: str) -> None:
    """The address 0 of a process's memory gives EIO, as a file on a failing disk does."""
    line = fails_with_one_line("journal", "dump", "/proc/self/mem")
    assert (
        line
        == "a file that was named cannot be read, or standard output cannot be written: Input/output error"
    )
    line = fails_with_one_line("ledger", "append", meta, "/proc/self/mem")
    assert re.match(
        r"/proc/self/mem cannot be read: Input/output error; ledger \d+ is closed and empty", line
    )


def test_a_closed_standard_input_is_one_line_and_a_closed_error_is_none(uri: str) -> None:
    created = shell("$B ledger create --metadata $1 <&- 2>&-", uri)
    assert created.returncode == 0
    ledger_id = created.stdout.decode().strip()
    appended = shell("$B ledger append --metadata $1 --ledger $2 <&-", uri, ledger_id)
    assert appended.returncode == 2
    assert b"standard input is closed: name a FILE, or send data to standard input" in appended.stderr
    appended = shell("$B ledger append --metadata $1 --ledger $2 /dev/null <&-", uri, ledger_id)
    assert (appended.returncode, appended.stderr) == (0, b"")
    assert shell("$B ledger show --metadata $1 no-number 2>&-", uri).returncode == 2


@pytest.mark.parametrize("options", ["", "--json", "--raw"])
def test_a_reader_that_has_seen_enough_is_no_error(uri: str, tmp_path: Path, options: str) -> None:
    (tmp_path / "long").write_bytes(b"0123456789\n" * 50_000)
    appended = bookledger("ledger", "append", "--json", f"--metadata={uri}", str(tmp_path / "long"))
    ledger_id = str(json.loads(appended.stdout)["ledger_id"])
    for command in ("read", "tail"):
        done = shell(f"$B ledger {command} {options} --metadata $1 $2 | head -c 10", uri, ledger_id)
        assert len(done.stdout) == 10
        assert done.stderr == b""
        done = shell(
            f"$B ledger {command} {options} --metadata $1 $2 | true; exit ${{PIPESTATUS[0]}}", uri, ledger_id
        )
        assert done.returncode == ExitCode.NOBODY_READS


@pytest.mark.parametrize("command", ["ledger list", "ledger list --json", "bookie info", "--help"])
def test_a_reader_that_is_gone_before_a_line_is_printed_is_no_error(uri: str, command: str) -> None:
    done = shell(f"export BOOKLEDGER_METADATA=$1; (sleep 0.2; $B {command}) | true", uri)
    assert done.stderr == b""
