"""Every option and every setting has a variable, stronger than a file of settings and weaker than what is typed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import click
import pytest

from bookie.limits_config import Limits
from bookledger.cli.config.command_options import inner_of, names_of, options_of
from bookledger.cli.config.sections import SECTIONS
from bookledger.cli.main import cli
from bookledger.cli.processes import BookieProcess, started
from ledgers import ClientConfig
from metadata import BadSettings
from metadata.settings.environment import PREFIX, BadVariable, from_environment, variable_of
from metadata.settings.settings_file import COMMON
from metadata.settings.tunable import defaults_of, to_toml, tunables_of
from metadata.sqlite.sqlite_uri import uri_of
from qjm_compat.config import JournalConfig
from tests.bookledger.typed_commands import Run, file_of
from tests.support.command_line import bookledger
from tests.support.http import HttpBookie, get

SHARED = {"BOOKLEDGER_TRACES", "BOOKLEDGER_ACCEPT_UNSAFE_ETCD"}
"""Of several commands, on purpose."""


pytestmark = pytest.mark.usefixtures("nothing_set")


def rows(run: Run, *arguments: str) -> dict[str, dict[str, Any]]:
    """What `config show` says, by setting."""
    code, out, err = run(*arguments, "--json")
    assert code == 0, err
    return {row["setting"]: row for row in map(json.loads, out.splitlines())}


def every_option(command: click.Command = cli, *path: str) -> Iterator[tuple[str, click.Option]]:
    if isinstance(command, click.Group):
        for name in names_of(command):
            yield from every_option(inner_of(command, name), *path, name)
    elif path:
        yield from ((f"{'.'.join(path)}.{name}", option) for name, option in options_of(command))


def test_every_option_has_a_variable_of_its_own_named_as_it_is_typed() -> None:
    found = dict(every_option())
    assert len(found) > 150
    for name, option in found.items():
        if option.envvar not in SHARED:
            assert option.envvar == variable_of(*name.split(".")), name
    settings = [
        variable_of(table, name) for table, one in SECTIONS.items() for name in tunables_of(one.kind())
    ]
    options = [option.envvar for option in found.values() if option.envvar not in SHARED]
    times = Counter(
        [*settings, *map(str, options), *COMMON.values(), "BOOKLEDGER_CONFIG", "BOOKLEDGER_VERBOSE"]
    )
    assert [name for name, count in times.items() if count > 1] == []


def test_a_file_is_weaker_than_the_environment_and_that_than_what_is_typed(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = file_of(tmp_path, "\n[bookie.run]\nport = 4181\n")
    show = ("config", "show", "bookie", "run")
    variable = "BOOKLEDGER_BOOKIE_RUN_PORT"

    def found(*arguments: str) -> tuple[Any, ...]:
        row = rows(run, *arguments)["bookie.run.port"]
        return row["value"], row["source"], row["where"], row["default"], row["variable"]

    assert found(*show) == (3181, "default", "", 3181, variable)
    assert found("--config", file, *show) == (4181, "file", f"{file}:3", 3181, variable)
    monkeypatch.setenv(variable, "5181")
    assert found("--config", file, *show) == (5181, "environment", variable, 3181, variable)
    assert found("--config", file, *show, "--port", "6181") == (6181, "flag", "--port", 3181, variable)
    monkeypatch.setenv(variable, "")
    assert found("--config", file, *show)[:2] == (4181, "file")


def test_settings_of_tables_and_of_the_program_say_where_they_come_from(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = file_of(tmp_path, 'metadata = "sqlite:///file.db"\n[limits]\npolls_max = 7\ncalls_max = 8\n')
    monkeypatch.setenv("BOOKLEDGER_LIMITS_CALLS_MAX", "9")
    monkeypatch.setenv("BOOKLEDGER_CERTS", "/certs")
    monkeypatch.setenv("BOOKLEDGER_LOG_FORMAT", "json")
    monkeypatch.setenv("BOOKLEDGER_VERBOSE", "2")
    found = rows(run, "--config", file, "--log-format", "plain", "config", "show")

    def of(name: str) -> tuple[Any, str, str]:
        return found[name]["value"], found[name]["source"], found[name]["where"]

    assert of("metadata") == ("sqlite:///file.db", "file", f"{file}:1")
    assert of("certs") == ("/certs", "environment", "BOOKLEDGER_CERTS")
    assert of("log-format") == ("plain", "flag", "--log-format")
    assert of("verbose") == (2, "environment", "BOOKLEDGER_VERBOSE")
    assert of("limits.polls_max") == (7, "file", f"{file}:3")
    assert of("limits.calls_max") == (9, "environment", "BOOKLEDGER_LIMITS_CALLS_MAX")
    assert of("limits.peer_share") == (Limits().peer_share, "default", "")


@pytest.mark.parametrize("table", SECTIONS)
def test_every_setting_is_taken_from_its_variable(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = SECTIONS[table].kind()
    wanted: dict[str, Any] = {}
    for name, one in tunables_of(kind).items():
        default = defaults_of(kind)[name]
        value = one.most if default is None else default
        if one.kind is bool:
            wanted[name] = not default
        elif isinstance(value, Enum):
            wanted[name] = value
        else:
            wanted[name] = one.kind(one.least if value != one.least else one.most)
        text = str(to_toml(wanted[name]))
        monkeypatch.setenv(variable_of(table, name), text.lower() if one.kind is bool else text)
    assert from_environment(kind, table) == wanted


@pytest.mark.parametrize(
    ("variable", "text", "why"),
    [
        ("LIMITS_POLLS_MAX", "0", "polls_max is 0; it must be from 1 to 10000000"),
        ("LIMITS_POLLS_MAX", "1.5", "polls_max must be a whole number, not '1.5'"),
        ("LIMITS_POLLS_MAX", "many", "polls_max must be a whole number, not 'many'"),
        ("LIMITS_PEER_SHARE", "nan", "peer_share is nan; it must be from 0.001 to 1"),
        ("LIMITS_PEER_SHARE", "half", "peer_share must be a number, not 'half'"),
        ("CLIENT_DELAY_ENSEMBLE_CHANGE", "maybe", "delay_ensemble_change must be true or false, not 'maybe'"),
        ("JOURNAL_DIGEST", "md5", "digest must be one of"),
    ],
)
def test_a_variable_that_cannot_be_used_is_named(
    variable: str, text: str, why: str, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.setenv(f"{PREFIX}_{variable}", text)
    table = variable.partition("_")[0].lower()
    with pytest.raises(BadVariable, match=f"^{PREFIX}_{variable}: ") as wrong:
        from_environment(SECTIONS[table].kind(), table)
    assert why in str(wrong.value)
    for command in ("show", "check"):
        code, _, err = run("config", command)
        assert code == 2 and f"{PREFIX}_{variable}: " in err and why in err


@pytest.mark.parametrize(
    ("variable", "text", "why"),
    [
        ("BOOKIE_RUN_PORT", "70000", "70000 is not in the range"),
        ("BOOKIE_RUN_HTTP", "here", "'here' is not HOST:PORT"),
        ("LEDGER_CREATE_CUSTOM", "a=b novalue", "'novalue' is not KEY=VALUE"),
        ("BOOKIE_RUN_HEAL", "perhaps", "'perhaps' is not a valid boolean"),
    ],
)
def test_an_option_that_the_environment_sets_wrong_is_told_with_its_variable(
    variable: str, text: str, why: str, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.setenv(f"{PREFIX}_{variable}", text)
    code, _, err = run("config", "check")
    assert code == 2 and f"{PREFIX}_{variable}: " in err and why in err, err


def test_a_command_says_where_a_wrong_value_stands(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("bookie", "run", f"--data={tmp_path}/none", "--metadata=sqlite:///x")
    file = file_of(tmp_path, "\n[bookie.run]\nport = 70000\n")
    code, _, err = run("--config", file, *command)
    assert code == 2 and "70000 is not in the range" in err and f"It is set by {file}:3." in err
    monkeypatch.setenv("BOOKLEDGER_BOOKIE_RUN_PORT", "80000")
    code, _, err = run("--config", file, *command)
    assert code == 2 and "It is set by BOOKLEDGER_BOOKIE_RUN_PORT." in err
    code, _, err = run("--config", file, *command, "--port=90000")
    assert code == 2 and "90000 is not in the range" in err and "It is set by" not in err


def test_a_variable_that_nobody_reads_is_named_with_the_nearest_one(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = run("config", "check")
    assert (code, err) == (0, "") and "is valid" in out
    monkeypatch.setenv("BOOKLEDGER_LIMIT_POLLS", "1")
    monkeypatch.setenv("BOOKLEDGER_QUITE_ANOTHER_NAME", "1")
    monkeypatch.setenv("BOOKLEDGER_BOOKIE_RUN_PROT", "1")
    monkeypatch.setenv("BOOKLEDGER_LIMITS_NONSENSE", "1")
    monkeypatch.setenv("BOOKLEDGER_METADTA", "1")
    code, _, err = run("config", "check")
    assert code == 2
    assert (
        "BOOKLEDGER_BOOKIE_RUN_PROT: no setting has this variable; did you mean BOOKLEDGER_BOOKIE_RUN_PORT?"
        in err
    )
    assert "BOOKLEDGER_METADTA: no setting has this variable; did you mean BOOKLEDGER_METADATA?" in err
    assert "BOOKLEDGER_LIMITS_NONSENSE: no setting has this variable" in err
    assert (
        "BOOKLEDGER_LIMIT_POLLS: no setting has this variable; did you mean BOOKLEDGER_LIMITS_POLLS_MAX?"
        in err
    )
    assert "BOOKLEDGER_QUITE_ANOTHER_NAME: no setting has this variable\n" in err


def test_an_option_may_be_set_several_times_by_one_variable(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOOKLEDGER_JOURNAL_SERVE_PEER", "h1:8480 h2:8480")
    row = rows(run, "config", "show", "journal", "serve")["journal.serve.peer"]
    assert (row["value"], row["source"]) == ("('h1:8480', 'h2:8480')", "environment")


def test_the_shape_of_a_journal_comes_from_whatever_is_strongest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Options of commands and [journal] set the same."""
    from bookledger.cli.config.settings import Settings
    from bookledger.cli.journal.options import journal_config

    def ensemble(*typed: str, in_file: dict[str, int] | None = None) -> int:
        journal = inner_of(cli, "journal")
        assert isinstance(journal, click.Group)
        command = inner_of(journal, "serve")
        context = click.Context(cli, obj=Settings(sections={"journal": {"ensemble_size": 5}}))
        context.default_map = {"serve": in_file or {}}
        required = ["--name=a", "--rpc=127.0.0.1:0", "--http=127.0.0.1:0", "--metadata=sqlite:///x"]
        made = command.make_context("serve", [*required, *typed], parent=context)
        names = ("ensemble_size", "write_quorum", "ack_quorum")
        with made:
            return journal_config(b"", **{name: made.params[name] for name in names}).ensemble_size

    assert ensemble() == 5
    assert ensemble(in_file={"ensemble_size": 6}) == 6
    monkeypatch.setenv("BOOKLEDGER_JOURNAL_ENSEMBLE_SIZE", "7")
    assert ensemble(in_file={"ensemble_size": 6}) == 7
    monkeypatch.setenv("BOOKLEDGER_JOURNAL_SERVE_ENSEMBLE", "8")
    assert ensemble(in_file={"ensemble_size": 6}) == 8
    assert ensemble("--ensemble=9") == 9


def test_programs_take_the_environment_too_and_find_it_stronger_than_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = file_of(tmp_path, "[client]\nread_ahead_pages = 9\n[journal]\nensemble_size = 5\n")
    monkeypatch.setenv("BOOKLEDGER_CLIENT_READ_AHEAD_PAGES", "11")
    monkeypatch.setenv("BOOKLEDGER_JOURNAL_ENSEMBLE_SIZE", "7")
    assert ClientConfig.from_file(file).read_ahead_pages == 11
    assert JournalConfig.from_file(file).ensemble_size == 7
    assert ClientConfig().read_ahead_pages not in (9, 11), "only where it asks for what is set"
    monkeypatch.setenv("BOOKLEDGER_CLIENT_READ_AHEAD_PAGES", "x")
    with pytest.raises(BadSettings, match=r"^BOOKLEDGER_CLIENT_READ_AHEAD_PAGES: "):
        ClientConfig.from_file(file)


def test_a_bookie_takes_options_and_settings_from_the_environment(tmp_path: Path) -> None:
    uri = uri_of(tmp_path / "metadata.db")
    environment = {
        "BOOKLEDGER_BOOKIE_RUN_HTTP": "127.0.0.1:0",
        "BOOKLEDGER_BOOKIE_RUN_FAULT_DOMAIN": "/from/environment",
        "BOOKLEDGER_LIMITS_POLLS_MAX": "77",
        "BOOKLEDGER_HTTP_CONNECTIONS_MAX": "5",
    }
    bookie = HttpBookie("b1", tmp_path / "b1", uri, environment=environment)
    with started([bookie]):
        metrics = get(f"{bookie.url}/metrics")[1]
        assert 'bookledger_bookie_limit_max{bookie="b1",limit="polls"} 77.0' in metrics
        assert "bookledger_http_connections_limit 5.0" in metrics
        info = bookledger("bookie", "info", f"--metadata={uri}", "--json").stdout
    assert b"/from/environment" in info


def test_a_bookie_that_a_command_runs_takes_no_options_of_our_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would listen where another does already."""
    monkeypatch.setenv("BOOKLEDGER_BOOKIE_RUN_HTTP", "127.0.0.1:1")
    monkeypatch.setenv("BOOKLEDGER_BOOKIE_RUN_HOST", "nowhere.invalid")
    with started([BookieProcess("b1", tmp_path / "b1", uri_of(tmp_path / "metadata.db"))]):
        pass
