"""Exit codes: what the document says is what the code has, and what commands end with."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bookledger.cli.messages.exit_codes import MEANINGS, ExitCode
from bookledger.cli.messages.interruption import advise_when_stopped
from tests.support.command_line import bookledger

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| (\d+) \| (.+) \|$", re.MULTILINE)


def test_the_document_has_every_exit_code_and_what_it_says() -> None:
    _, _, behind = (ROOT / "docs/day-to-day.md").read_text().partition("| exit code | |\n|---|---|\n")
    documented = {int(code): told for code, told in ROW.findall(behind.partition("\n\n")[0])}
    assert documented == {int(code): told for code, told in MEANINGS.items()}
    assert set(MEANINGS) == set(ExitCode)


def test_commands_end_with_them() -> None:
    assert bookledger("ledger", "--help").returncode == ExitCode.DONE
    assert bookledger("ledger", "list", "--metadata=sqlite:///none/at/all.db").returncode == ExitCode.FAILED
    assert bookledger("ledger", "list", "--no-such-option").returncode == ExitCode.WRONG_USAGE


@pytest.mark.parametrize(
    ("command", "named"),
    [
        (("cluster", "status", "--metadata=URI"), "'--metadata'"),
        (("bookie", "run", "--data=/none", "--metadata=URI"), "'--metadata'"),
        (("demo", "--metadata=URI"), "'--metadata'"),
        (("journal", "show", "ns1", "--metadata=sqlite:///m.db", "--acceptor=a=URI"), "'--acceptor'"),
    ],
    ids=lambda one: one if isinstance(one, str) else one[0],
)
@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("http://127.0.0.1/x", "the scheme 'http' is not known"),
        ("nonsense", "it has no scheme"),
        ("sqlite://relative.db", "absolute"),
        ("etcd://h:2379", "prefix"),
    ],
)
def test_a_uri_that_names_no_metadata_store_is_wrong_usage_and_nothing_is_done(
    command: tuple[str, ...], named: str, uri: str, why: str
) -> None:
    ended = bookledger(*(one.replace("URI", uri) for one in command))
    said = ended.stderr.decode()
    assert ended.returncode == ExitCode.WRONG_USAGE, said
    assert named in said and why in said and "write etcd://HOST:PORT" in said


def test_a_wrong_uri_of_the_environment_is_told_with_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOOKLEDGER_METADATA", "zk://h/x")
    ended = bookledger("cluster", "status")
    assert ended.returncode == ExitCode.WRONG_USAGE
    assert b"It is set by BOOKLEDGER_METADATA" in ended.stderr


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (KeyboardInterrupt(), "bookledger: interrupted; 3 of 7 are done\n"),
        (SystemExit(ExitCode.TERMINATED), "bookledger: stopped; 3 of 7 are done\n"),
        (SystemExit(ExitCode.HUNG_UP), "bookledger: stopped; 3 of 7 are done\n"),
        (SystemExit(ExitCode.FAILED), ""),
        (SystemExit(None), ""),
        (ValueError("wrong"), ""),
    ],
)
def test_how_to_go_on_is_said_when_work_is_stopped_and_only_then(
    end: BaseException, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises((SystemExit, ValueError)) as raised, advise_when_stopped(lambda: "3 of 7 are done"):
        raise end
    if isinstance(end, KeyboardInterrupt):
        assert raised.value.args == (ExitCode.INTERRUPTED,)
    else:
        assert raised.value is end
    assert capsys.readouterr() == ("", said)


def test_nothing_is_said_of_work_that_ends_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    with advise_when_stopped(lambda: "never asked"):
        pass
    assert capsys.readouterr() == ("", "")
