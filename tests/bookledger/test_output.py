"""What commands print: a line for each row, nothing cut off, nothing that looks like Python."""

from __future__ import annotations

import json

import pytest

from bookledger.cli import output

ROWS = [
    {"ledger_id": 1, "state": "closed", "why": None, "is_open": False},
    {"ledger_id": 22, "state": "open", "why": "a rather long reason that needs its room", "is_open": True},
]


@pytest.fixture
def terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> pytest.CaptureFixture[str]:
    """Standard output is one, of 40 columns."""
    monkeypatch.setattr(output, "_columns", lambda: 40)
    return capsys


def test_in_a_pipe_a_record_is_a_line_however_long(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_records(ROWS, as_json=False, none="nothing")
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split("  ")[0] == "ledger id" and len(lines) == 2
    assert lines[0].split() == ["1", "closed", "-", "no"]
    assert lines[1] == "22         open    a rather long reason that needs its room  yes"


def test_a_long_last_column_is_wrapped_where_there_is_room_for_it(
    terminal: pytest.CaptureFixture[str],
) -> None:
    rows = [{"id": 1, "custom": "topic=orders owner=team-a region=north"}, {"id": 22, "custom": "x"}]
    output.print_records(rows, as_json=False, none="nothing")
    assert terminal.readouterr().out.splitlines() == [
        "id  custom",
        "1   topic=orders owner=team-a",
        "    region=north",
        "22  x",
    ]


def test_on_a_narrow_terminal_a_record_is_a_block_and_nothing_is_cut(
    terminal: pytest.CaptureFixture[str],
) -> None:
    output.print_records(ROWS, as_json=False, none="nothing")
    said = terminal.readouterr().out
    assert said.splitlines()[0] == "ledger id  1"
    assert "why        a rather long reason that needs its room" in said
    assert "\n\nledger id  22" in said


def test_on_a_terminal_that_is_wide_enough_it_is_a_table(terminal: pytest.CaptureFixture[str]) -> None:
    output.print_records([{"a": 1, "b": "x"}], as_json=False, none="nothing")
    assert terminal.readouterr().out == "a  b\n1  x\n"


def test_what_is_nested_has_names_of_its_own_and_no_braces(capsys: pytest.CaptureFixture[str]) -> None:
    record = {
        "name": "b1",
        "last": {"round": "major", "found": {"frames": 3}},
        "list": [{"id": 1, "why": "x"}, 2],
    }
    output.print_record(record, as_json=False)
    said = capsys.readouterr().out
    assert said.splitlines() == [
        "name               b1",
        "last.round         major",
        "last.found.frames  3",
        "list               id=1 why=x, 2",
    ]
    output.print_record(record, as_json=True)
    assert json.loads(capsys.readouterr().out) == record


def test_nothing_found_is_said_in_words_and_as_no_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_records([], as_json=False, none="there is nothing")
    output.print_records([], as_json=True, none="there is nothing")
    assert capsys.readouterr().out == "there is nothing\n"
