"""`--help`: every command shows examples that it understands, headings where there is much, and 80 columns."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache

import click
import pytest

from bookledger.cli.main import cli
from bookledger.cli.messages.help import Command, CommandGroup
from tests.support.command_line import bookledger as run

PROGRAM = "bookledger"
COLUMNS = 80
OPTIONS_WITHOUT_HEADINGS_MAX = 8
COMMANDS_WITHOUT_HEADINGS_MAX = 6
SHELL = frozenset({"|", "||", "&&", ";", ">", ">>", "<"})


@cache
def commands() -> dict[str, tuple[click.Context, Command | CommandGroup]]:
    """All of the tree, by what is typed to reach them."""
    return dict(_below(click.Context(cli, info_name=PROGRAM, **cli.context_settings), cli, PROGRAM))


def _below(
    context: click.Context, command: click.Command, path: str
) -> Iterator[tuple[str, tuple[click.Context, Command | CommandGroup]]]:
    assert isinstance(command, Command | CommandGroup), f"{path} shows no examples: make it with told.help"
    yield path, (context, command)
    if isinstance(command, CommandGroup):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _below(click.Context(inner, info_name=name, parent=context), inner, f"{path} {name}")


def help_of(path: str) -> str:
    context, command = commands()[path]
    return command.get_help(context)


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """As an example takes it for granted."""
    monkeypatch.setenv("BOOKLEDGER_METADATA", "sqlite:///srv/metadata.db")
    for name in ("BOOKLEDGER_CERTS", "BOOKLEDGER_CONFIG", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("path", commands())
def test_every_command_ends_its_help_with_examples_of_itself(path: str) -> None:
    _, command = commands()[path]
    assert command.examples, f"{path}: its docstring ends without Examples:"
    assert help_of(path).endswith("\n\nExamples:\n" + "\n".join(f"  {line}" for line in command.examples))
    assert all(PROGRAM in line for line in command.examples)
    typed = [words for line in command.examples for words in typed_in(line)]
    names = path.split()[1:]
    assert any([word for word in words if word in names][: len(names)] == names for words in typed), (
        f"no example of {path} shows it"
    )


@pytest.mark.parametrize("path", commands())
def test_every_example_is_understood_by_the_command_it_shows(path: str) -> None:
    _, command = commands()[path]
    for line in command.examples:
        typed = list(typed_in(line))
        assert typed, f"{line} shows none of our commands"
        for words in typed:
            parse(words)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("bookledger ledger append --no-such-option", "No such option"),
        ("bookledger ledger appendix", "No such command"),
        ("bookledger ledger read", "Missing argument 'LEDGER'"),
        ("bookledger bookie format --id b1", "Missing option '--data'"),
        ("bookledger bookie gc", "Missing command"),
        ("bookledger ledger list --state shut", "is not one of"),
        ("seq 3 | bookledger ledger create --custom owner", "is not KEY=VALUE"),
        ("bookledger journal fsck ns1 extra", "unexpected extra argument"),
    ],
)
def test_an_example_with_something_wrong_in_it_is_found(line: str, why: str) -> None:
    with pytest.raises(click.UsageError) as wrong:
        for words in typed_in(line):
            parse(words)
    assert why in wrong.value.format_message()


@pytest.mark.parametrize("path", commands())
def test_help_reads_well_in_80_columns(path: str) -> None:
    for line in help_of(path).splitlines():
        assert len(line) <= COLUMNS and line == line.rstrip() and line.isprintable(), line
    assert "..." not in help_of(path).partition("\n")[2], "something is cut off"


@pytest.mark.parametrize("path", commands())
def test_every_command_says_what_it_does_and_explains_every_option(path: str) -> None:
    text = help_of(path)
    assert text.startswith(f"Usage: {path}")
    assert text.split("\n\n")[1].strip().endswith(".")
    for line in text.splitlines():
        if line.startswith("  -"):  # what stands further in goes on from the line before
            option, *explanation = re.split(r"  +", line.strip(), maxsplit=1)
            assert explanation or len(option) > 25, f"{option} is not explained"


@pytest.mark.parametrize("path", commands())
def test_many_options_and_many_commands_stand_under_headings(path: str) -> None:
    context, command = commands()[path]
    options = {name for one in command.params if isinstance(one, click.Option) for name in one.opts}
    headings = command.headings
    if isinstance(command, CommandGroup):
        under = [name for names in headings.values() for name in names]
        inner = command.list_commands(context)
        assert headings or len(inner) <= COMMANDS_WITHOUT_HEADINGS_MAX
        assert not headings or sorted(under) == sorted(inner), "each command stands under one heading"
        return
    under = [name for names in headings.values() for name in names]
    assert headings or len(command.params) - 1 <= OPTIONS_WITHOUT_HEADINGS_MAX + 1
    assert len(under) == len(set(under)) and set(under) <= options
    for heading in headings:
        assert f"\n{heading}:\n" in help_of(path)


def test_every_option_is_shown_once() -> None:
    for path, (_, command) in commands().items():
        shown = help_of(path).partition("\n\nExamples:\n")[0]
        first_words = [line.split()[0].rstrip(",") for line in shown.splitlines() if line.startswith("  -")]
        for one in command.params:
            if isinstance(one, click.Option) and not one.hidden:
                assert sum(name in first_words for name in one.opts) == 1, f"{path} {one.opts}"


def test_custom_metadata_is_custom_everywhere() -> None:
    named = {
        path: one.opts
        for path, (_, command) in commands().items()
        for one in command.params
        if one.name is not None and "custom" in one.name
    }
    assert {"bookledger ledger create", "bookledger ledger append", "bookledger ledger list"} < named.keys()
    assert "bookledger replay" in named
    assert all(names == ["--custom"] for names in named.values())


def test_a_pipe_gets_the_same_text_without_escape_codes() -> None:
    said = run("ledger", "append", "--help").stdout.decode()
    assert said.rstrip("\n") == help_of("bookledger ledger append")
    assert "\x1b" not in said


def typed_in(line: str) -> Iterator[list[str]]:
    """The arguments of each of our commands in a line of shell."""
    words: list[str] = []
    for word in [*_words(line), ";"]:
        if word not in SHELL:
            words.append(word)
            continue
        if words[:1] == [PROGRAM]:
            yield words[1:]
        words = [] if word not in (">", ">>", "<") else ["to a file"]


def _words(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    return list(lexer)


def parse(words: list[str]) -> None:
    """Takes the arguments as the command itself takes them, but looks for no file. Raises UsageError."""
    command, context = commands()[PROGRAM][1], click.Context(cli, info_name=PROGRAM, **cli.context_settings)
    rest = taken(command, context, words)
    while isinstance(command, CommandGroup) and rest is not None:
        if not rest:
            raise click.UsageError("Missing command")
        name, found, rest = command.resolve_command(context, rest)
        assert isinstance(found, Command | CommandGroup)
        command = found
        context = click.Context(found, info_name=name, parent=context, **found.context_settings)
        rest = taken(command, context, rest)
    if rest:
        raise click.UsageError(f"Got unexpected extra argument {rest}")


def taken(command: click.Command, context: click.Context, words: list[str]) -> list[str] | None:
    """What is left behind the options and arguments of one command; None where its help is asked for."""
    given, rest, _ = command.make_parser(context).parse_args(list(words))
    asked = command.get_help_option(context)
    if asked is not None and given.get(str(asked.name)) is True:
        return None
    for param in command.get_params(context):
        if not isinstance(param.type, click.Path | click.File):
            param.handle_parse_result(context, given, [])
        elif param.required and param.name not in given and param.value_from_envvar(context) is None:
            raise click.MissingParameter(ctx=context, param=param)
    return list(rest)


def test_the_walk_reaches_commands_below_groups_below_groups() -> None:
    assert {"bookledger bookie gc run", "bookledger journal serve", "bookledger sim"} <= commands().keys()
    assert len(commands()) > 60


@pytest.mark.parametrize("path", [("ledger", "tail"), ("journal", "tail")])
def test_from_when_an_outage_counts_is_said(path: tuple[str, ...]) -> None:
    """A limit that is shorter than an attempt ends later than it says."""
    said = " ".join(run(*path, "--help").stdout.decode().split())
    assert "from the first failed attempt. The attempt in progress" in said
