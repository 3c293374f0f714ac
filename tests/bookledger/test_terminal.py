"""What a terminal is shown, and what options take."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from bookledger.cli.main import cli
from bookledger.cli.output import print_record, shown


def test_what_others_chose_is_shown_with_nothing_that_a_terminal_would_obey() -> None:
    assert shown("plain Ελληνικά 日本") == "plain Ελληνικά 日本"
    assert shown("\x1b[2Jgone\r\n\x07\x9b\u202e") == r"\x1b[2Jgone\r\n\x07\x9b\u202e"


def test_a_record_with_escape_codes_is_printed_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    print_record({"name": "b\x1b[31m1", "hosts": ["h\n1", "h2"]}, as_json=False)
    assert capsys.readouterr().out == "name   b\\x1b[31m1\nhosts  h\\n1, h2\n"


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
