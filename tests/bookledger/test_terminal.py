"""What a terminal is shown, and what options take."""

from __future__ import annotations

import logging

import pytest
from click.testing import CliRunner

from bookledger.cli.main import cli, main
from bookledger.cli.output import print_record
from bookledger.cli.terminal import PlainFormatter, say, shown, shown_bytes


def test_what_others_chose_is_shown_with_nothing_that_a_terminal_would_obey() -> None:
    assert shown("plain Ελληνικά 日本") == "plain Ελληνικά 日本"
    assert shown("\x1b[2Jgone\r\n\x07\x9b\u202e") == r"\x1b[2Jgone\r\n\x07\x9b\u202e"


def test_a_record_with_escape_codes_is_printed_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    print_record({"name": "b\x1b[31m1", "hosts": ["h\n1", "h2"]}, as_json=False)
    assert capsys.readouterr().out == "name   b\\x1b[31m1\nhosts  h\\n1, h2\n"


def test_a_line_cannot_be_forged_by_a_name_with_a_line_break_in_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    say("problem: \x1b]0;title\x07 of b1\nproblem: none")
    assert capsys.readouterr().out == "problem: \\x1b]0;title\\x07 of b1\\nproblem: none\n"


def test_bytes_are_shown_as_the_text_they_are() -> None:
    assert shown_bytes("é\x1b".encode() + b"\xff") == "é\\x1b\\xff"


def test_a_message_in_the_log_is_shown_so_and_a_traceback_keeps_its_lines() -> None:
    try:
        raise ValueError("a\nb")
    except ValueError as error:
        record = logging.LogRecord(
            "x", logging.WARNING, "f", 1, "bookie %s", ("\x1b[31m\n",), (type(error), error, None)
        )
    line, *traceback = PlainFormatter("%(message)s").format(record).split("\n")
    assert line == "bookie \\x1b[31m\\n"
    assert traceback == ["ValueError: a", "b"]


@pytest.mark.parametrize(
    "arguments",
    [("ledger", "read", "\x1b[31m7"), ("ledger", "list", "--metadata=\x1b[31m://x"), ("bookie", "\x1b[31m")],
)
def test_an_error_shows_what_was_typed_so_too(
    arguments: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    said = capfd.readouterr().err
    assert "\\x1b" in said and "\x1b" not in said


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "NaN"])
@pytest.mark.parametrize(
    "command",
    [
        ("bookie", "gc", "run", "--all", "--metadata=sqlite:///none", "--timeout"),
        ("bookie", "run", "--metadata=sqlite:///none", "--data=none", "--lease-seconds"),
        ("journal", "fsck", "ns1", "--metadata=sqlite:///none", "--orphan-age"),
        ("bench", "--seconds"),
    ],
)
def test_a_number_that_is_none_is_wrong_usage(command: tuple[str, ...], number: str) -> None:
    done = CliRunner().invoke(cli, [*command, number])
    assert done.exit_code == 2, done.output
    assert "not a finite number" in done.output or "not in the range" in done.output
