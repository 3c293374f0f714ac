"""Log lines as JSON: one object a line, whatever is in it, from a real bookie's first line to its last."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from bookledger.admin.log_formats import JsonFormatter
from bookledger.cli.main import main
from bookledger.cli.processes import BookieProcess, started
from ledgers import LedgerClient
from metadata.sqlite.sqlite_uri import uri_of


def formatted(message: str, *arguments: object, **given: Any) -> dict[str, Any]:
    record = logging.LogRecord("bookie.x", logging.WARNING, "f", 1, message, arguments, None)
    vars(record).update(given)
    line = JsonFormatter().format(record)
    assert "\n" not in line
    told: dict[str, Any] = json.loads(line)
    return told


def test_a_line_is_one_object_with_what_was_given() -> None:
    told = formatted("bookie %s\nis \x1b[31mhere", "b1", bookie="b1", path=Path("/srv"))
    at = told.pop("at")
    assert at.endswith("Z") and len(at) == len("2026-01-01T00:00:00.000Z")
    assert told == {
        "bookie": "b1",
        "path": "/srv",
        "level": "warning",
        "logger": "bookie.x",
        "message": "bookie b1\nis \x1b[31mhere",
    }


def test_a_traceback_stays_in_its_line() -> None:
    try:
        raise ValueError("a\nb")
    except ValueError:
        told = formatted("it failed")
        record = logging.LogRecord("x", logging.ERROR, "f", 1, "it failed", (), sys.exc_info())
    assert "trace" not in told
    assert json.loads(JsonFormatter().format(record))["trace"].endswith("ValueError: a\nb")


def test_nothing_that_is_given_takes_the_place_of_what_every_line_has() -> None:
    assert formatted("here", level="fine", at="never")["level"] == "warning"


def test_a_bookie_tells_who_begins_and_who_ends(tmp_path: Path) -> None:
    uri = uri_of(tmp_path / "metadata.db")
    bookie = BookieProcess(
        "b1", tmp_path / "b1", uri, environment={"BOOKLEDGER_LOG_FORMAT": "json", "GRPC_VERBOSITY": "NONE"}
    )
    with (
        started([bookie]),
        LedgerClient(uri) as client,
        client.create_ledger(ensemble_size=1, write_quorum=1, ack_quorum=1) as writer,
    ):
        writer.append(b"x")
    lines = [json.loads(line) for line in bookie.log.read_text().splitlines()]
    about = [line for line in lines if line.get("bookie") == "b1"]
    begin, end = about[0]["message"], about[-1]["message"]
    assert begin.startswith("serving: version ") and str(tmp_path / "b1") in begin
    assert f"127.0.0.1:{bookie.port}" in begin
    assert end.startswith("stopping as requested; served for ") and end.endswith("stored 1 entries")


@pytest.mark.parametrize(
    ("argument", "code", "told"),
    [("--metadata=sqlite:///nowhere/at/all.db", 1, "/nowhere/at"), ("--no-such-option", 2, "No such option")],
)
def test_what_ends_a_command_is_a_line_of_json_too(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, argument: str, code: int, told: str
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    with pytest.raises(SystemExit) as ended:
        main(["--log-format=json", "ledger", "list", argument])
    assert ended.value.code == code
    line = json.loads(capfd.readouterr().err)
    assert line["level"] == "error" and told in line["message"]
