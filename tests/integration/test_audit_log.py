"""The audit log: who did what, from where, and how it ended; and nothing that is secret."""

from __future__ import annotations

import json
import logging
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bookledger.cli import audit_log
from bookledger.cli.processes import BookieProcess, started
from metadata import audit
from metadata.audit import AUDIT, REFUSALS_A_SECOND_MAX, Act, record_audit
from tests.support.authority import TestAuthority
from tests.support.command_line import bookledger
from tests.support.secrets import password_file
from tests.support.waiting import until

PASSWORD, PAYLOAD, KEY = "Tr0ub4dor-and-3-nobody-else", "a payload that nobody logs", bytes(range(32)).hex()


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@contextmanager
def kept(path: Path, **settings: int) -> Iterator[None]:
    """This process keeps its lines there inside of the block."""
    audit_log.keep(path, audit_log.LogsConfig(**settings))
    handler = AUDIT.handlers[-1]
    try:
        yield
    finally:
        AUDIT.removeHandler(handler)
        AUDIT.setLevel(logging.NOTSET)
        AUDIT.propagate = True
        handler.close()


def test_bookies_and_commands_tell_who_did_what_and_no_secret(tmp_path: Path) -> None:
    from bookie.wire.trust.roles import Role

    authority = TestAuthority(tmp_path)
    uri = f"sqlite://{tmp_path}/metadata.db"
    secret = password_file(tmp_path / "password", PASSWORD + "\n")
    key = password_file(tmp_path / "key", KEY + "\n")
    at_bookie, at_client = tmp_path / "bookie-audit.log", tmp_path / "client-audit.log"
    bookie = BookieProcess(
        "b1",
        tmp_path / "b1",
        uri,
        options=[f"--certs={authority.bookie('b1')}"],
        environment={"BOOKLEDGER_AUDIT_LOG": str(at_bookie)},
    )

    def run(role: Role, *arguments: str, stdin: str = "") -> tuple[int, str]:
        mine = {
            "BOOKLEDGER_METADATA": uri,
            "BOOKLEDGER_CERTS": str(authority.of(role, "ada")),
            "BOOKLEDGER_KEY_FILE": str(key),
            "BOOKLEDGER_AUDIT_LOG": str(at_client),
        }
        done = bookledger("-v", *arguments, stdin=stdin.encode(), env={**os.environ, **mine})
        return done.returncode, (done.stdout + done.stderr).decode()

    with started([bookie]):
        said = ""
        new = ("--ensemble=1", f"--password-file={secret}")
        assert run(Role.CLIENT, "ledger", "append", *new, stdin=f"{PAYLOAD}\n")[0] == 0
        assert run(Role.CLIENT, "ledger", "create", *new)[0] == 0
        code, text = run(Role.READER, "ledger", "recover", f"--password-file={secret}", "2")
        assert code == 1
        said += text
        assert run(Role.CLIENT, "ledger", "recover", f"--password-file={secret}", "2")[0] == 0
        assert run(Role.CLIENT, "ledger", "delete", "--yes", f"--password-file={secret}", "2")[0] == 0
        assert run(Role.ADMIN, "bookie", "gc", "status", "b1")[0] == 0
        code, text = run(Role.CLIENT, "bookie", "gc", "status", "b1")
        said += text
        assert code == 1
    by_bookie, by_client = lines_of(at_bookie), lines_of(at_client)
    assert [(line["what"], line.get("ledger_id")) for line in by_client] == [
        ("create", 1),
        ("close", 1),
        ("create", 2),
        ("recover", 2),
        ("delete", 2),
    ]
    told = [(line["what"], line["who"], line["from"], line["outcome"]) for line in by_bookie]
    here = "127.0.0.1"
    maintain = "client:ada may not run maintenance: that takes a certificate of role admin"
    assert ("fence", "client:ada", here, "done") in told
    assert ("maintenance", "admin:ada", here, "done") in told
    assert told[-1] == ("refused access", "client:ada", here, maintain)
    private_key = (authority.of(Role.CLIENT, "ada") / "key.pem").read_text().splitlines()[1]
    for path in (at_bookie, at_client):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        said += path.read_text()
    said += bookie.log.read_text()
    for what in (PASSWORD, PAYLOAD, KEY, private_key):
        assert what not in said


def is_told(path: Path, order: str) -> bool:
    return order in [one.get("order") for one in lines_of(path)]


def test_a_bookie_tells_what_is_ordered_of_it_and_so_does_the_command(tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    at_bookie, at_command = tmp_path / "bookie-audit.log", tmp_path / "command-audit.log"
    bookie = BookieProcess("b1", tmp_path / "b1", uri, environment={"BOOKLEDGER_AUDIT_LOG": str(at_bookie)})
    with started([bookie]):
        for more, order in (((), "maintenance"), (("--end",), "taken back")):
            command = ("cluster", "maintenance", "b1", *more, f"--metadata={uri}")
            assert bookledger(f"--audit-log={at_command}", *command).returncode == 0
            until(partial(is_told, at_bookie, order))
    orders = [("order", "maintenance"), ("order", "taken back")]
    for path in (at_bookie, at_command):
        assert [(one["what"], one["order"]) for one in lines_of(path)] == orders
        assert {one["bookie"] for one in lines_of(path)} == {"b1"}


def test_the_log_is_rotated_and_bounded(tmp_path: Path) -> None:
    with kept(tmp_path / "audit.log", audit_log_bytes_max=1000, audit_log_files_max=3):
        for n in range(200):
            record_audit(Act.CREATE, ledger_id=n)
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["audit.log", "audit.log.1", "audit.log.2"]
    assert all(file.stat().st_size <= 1000 and stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    told = [line["ledger_id"] for file in reversed(files) for line in lines_of(file)]
    assert told == list(range(200 - len(told), 200))


def test_a_log_that_cannot_be_rotated_grows_and_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_rename(self: object, source: str, dest: str) -> None:
        raise PermissionError(13, "Permission denied", dest)

    monkeypatch.setattr(audit_log.AuditLog, "rotate", no_rename)
    with kept(tmp_path / "audit.log", audit_log_bytes_max=1000):
        for n in range(100):
            record_audit(Act.CREATE, ledger_id=n)
    assert [line["ledger_id"] for line in lines_of(tmp_path / "audit.log")] == list(range(100))
    assert [record.message for record in caplog.records if "cannot be rotated" in record.message] == [
        f"the audit log cannot be rotated, and keeps growing: [Errno 13] Permission denied: '{tmp_path}/audit.log.1'"
    ]


def test_refusals_past_the_bound_are_counted_and_all_else_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 5.0)
    monkeypatch.setattr(audit, "_refusals", audit._RefusalRateLimit())
    with kept(tmp_path / "audit.log"):
        for _ in range(REFUSALS_A_SECOND_MAX):
            record_audit(Act.REFUSED, "no", where="10.0.0.1")
        record_audit(Act.REFUSED, "one past it", where="10.0.0.1")
        record_audit(Act.FENCE, ledger_id=1)
        monkeypatch.setattr(time, "monotonic", lambda: 6.0)
        record_audit(Act.REFUSED, "x" * 9999, where="10.0.0.1")
    found = lines_of(tmp_path / "audit.log")
    assert [line["what"] for line in found] == ["refused access"] * REFUSALS_A_SECOND_MAX + [
        "fence",
        "refused access",
    ]
    assert found[-2]["refusals_left_out"] == 1 and "refusals_left_out" not in found[-1]
    assert len(found[-1]["outcome"]) == 500


def test_a_file_that_cannot_be_written_ends_nobody_and_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with kept(tmp_path / "audit.log"):
        handler: Any = AUDIT.handlers[-1]
        handler.stream.close()
        handler.stream = full = open("/dev/full", "w", encoding="utf-8")  # noqa: SIM115 — closed below
        record_audit(Act.DELETE, ledger_id=7)
        handler.stream = None
        with suppress(OSError):
            full.close()
    assert (
        "the audit log cannot be written ([Errno 28] No space left on device); the missing line"
        in caplog.text
        and '"ledger_id": 7' in caplog.text
    )
    assert "Traceback" not in caplog.text
    done = bookledger("--audit-log", str(tmp_path / "no" / "where"), "ledger", "list")
    assert done.returncode == 1 and b"where" in done.stderr and b"Traceback" not in done.stderr


def test_nothing_is_told_where_nobody_keeps_it(caplog: pytest.LogCaptureFixture) -> None:
    record_audit(Act.CREATE, ledger_id=1)
    assert not caplog.records
