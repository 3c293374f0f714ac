"""`bookledger config`: shows settings, and validates a settings file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from enum import Enum
from itertools import takewhile
from pathlib import Path
from textwrap import wrap
from typing import Any

import click

from metadata.settings.environment import variable_of
from metadata.settings.settings_file import COMMON
from metadata.settings.tunable import Tunable, defaults_of, format_range, to_toml, tunables_of, unit_of

from ...admin.log_formats import LogFormat
from ..event_loop import EventLoop
from ..messages.help import group
from ..options import FilePath, json_option
from ..output import print_records
from ..terminal import say
from . import checking
from .command_options import inner_of, options_of
from .origin import DEFAULT, Origin, SettingSource, origin_in_table, origin_of
from .sections import SECTIONS
from .settings import settings_now

DAEMONS = (
    ("bookie", "run"),
    ("standalone",),
    ("autorecovery",),
    ("offloader",),
    ("journal", "serve"),
    ("console",),
)
"""Long-running commands, which users configure in a file rather than on the command line."""

COLUMNS = 100


def example_of(root: click.Group, defaults: Mapping[str, Any]) -> Iterator[str]:
    """Yields the lines of the example file. `defaults`: the defaults of the settings at the top of the file."""
    yield "# Settings of bookledger: `bookledger --config FILE …`, or BOOKLEDGER_CONFIG=FILE. Options override the"
    yield "# environment, which overrides this file. `bookledger config check FILE` checks it."
    yield "# Each setting has an environment variable: polls_max in [limits] has BOOKLEDGER_LIMITS_POLLS_MAX, port in"
    yield "# [bookie.run] has BOOKLEDGER_BOOKIE_RUN_PORT. `bookledger config show` lists them with their values."
    yield "# Each line that is commented out shows the default, or <a description> of a setting without one."
    yield ""
    for name, variable in COMMON.items():
        yield from _setting(name, defaults.get(name), f"Also from {variable}.")
    for name in SECTIONS:
        yield from _section(name)
    for path in DAEMONS:
        yield from _command(root, path)


def _section(name: str) -> Iterator[str]:
    kind = SECTIONS[name].kind()
    values = defaults_of(kind)
    yield f"\n[{name}]  # {SECTIONS[name].description}"
    for field, one in tunables_of(kind).items():
        yield from _setting(field, to_toml(values[field]), f"{one.description} {_range(field, one)}")


def _range(name: str, one: Tunable) -> str:
    unit = unit_of(name, one)
    return (
        f"({format_range(name, one)}{' ' + unit if unit else ''})"
        if one.kind in (int, float)
        else f"({unit})"
    )


def _command(root: click.Group, path: tuple[str, ...]) -> Iterator[str]:
    found: click.Command = root
    for name in path:
        assert isinstance(found, click.Group)
        found = inner_of(found, name)
    yield f"\n[{'.'.join(path)}]  # options of `bookledger {' '.join(path)}`"
    for name, option in options_of(found):
        yield from _setting(name, _default(option), option.help or "")


def _default(option: click.Option) -> Any:
    value = option.default is True if option.is_flag else option.default
    return to_toml(value) if isinstance(to_toml(value), bool | int | float | str) and value != "" else None


def _setting(name: str, default: Any, description: str) -> Iterator[str]:
    for line in wrap(description, COLUMNS):
        yield f"# {line}"
    yield f"#{name} = {_toml(default) if default is not None else '<' + name + '>'}"


def _toml(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


Row = dict[str, Any]

DEFAULTS = {"log-format": LogFormat.PLAIN.value, "event-loop": EventLoop.FASTEST.value}
"""Defaults of the settings at the top of the settings file; settings that are not listed here have no default."""


@group()
def config() -> None:
    """Show and check the settings in a file (bookledger --config FILE) and in the environment.

    Examples:
        bookledger config check bookledger.toml
        bookledger config show bookie run
    """


@config.command()
@click.argument("path", type=FilePath(), required=False)
@click.pass_context
def check(context: click.Context, path: Path | None) -> None:
    """Check a settings file and the environment: every name and every value, of all commands.

    Examples:
        bookledger config check /etc/bookledger.toml
        bookledger config check
    """
    root = context.find_root().command
    assert isinstance(root, click.Group)

    checking.check(path, root)
    say(f"{path} is valid" if path else "the environment is valid")


@config.command(context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, metavar="[COMMAND|TABLE]...", type=click.UNPROCESSED)
@json_option
@click.pass_context
def show(context: click.Context, command: tuple[str, ...], as_json: bool) -> None:
    """Show all settings, those of COMMAND (such as: bookie run) or of TABLE (such as: limits), with their origin.

    The environment overrides the file, and options override both: add options after COMMAND to try them.

    Examples:
        bookledger config show
        bookledger --config bookledger.toml config show bookie run
        bookledger config show bookie run --port 4181
        bookledger config show limits
    """
    words = tuple(takewhile(lambda word: not word.startswith("-"), command))
    options = list(command[len(words) :])
    rows = list(_of_words(context, words, options) if words else _of_all(context))
    print_records(rows, as_json=as_json, none="there are no settings")


@config.command()
@click.pass_context
def example(context: click.Context) -> None:
    """Print an example settings file with every setting, commented out at its default.

    Examples:
        bookledger config example > bookledger.toml
    """
    root = context.find_root()
    assert isinstance(root.command, click.Group)
    for line in example_of(root.command, DEFAULTS):
        click.echo(line)


def _of_all(context: click.Context) -> Iterator[Row]:
    root = context.find_root()
    for param in root.command.params:
        if param.name == "verbose":
            yield _row(
                "verbose", root.params["verbose"], origin_of(root, param), 0, variable=str(param.envvar)
            )
    for name, variable in COMMON.items():
        origin = _origin_at_the_top(root, name)
        value = os.environ.get(variable) or DEFAULTS.get(name)
        if origin.source is SettingSource.FLAG:
            value = _plain(root.params[name.replace("-", "_")])
        yield _row(name, value, origin, DEFAULTS.get(name), variable=variable)
    for table in SECTIONS:
        yield from _of_table(table)


def _of_table(table: str) -> Iterator[Row]:
    kind, settings = SECTIONS[table].kind(), settings_now()
    given, defaults = settings.values(table), defaults_of(kind)
    for name, one in tunables_of(kind).items():
        value, default = to_toml(given.get(name, defaults[name])), to_toml(defaults[name])
        origin = origin_in_table(settings, table, name)
        unit, variable = unit_of(name, one), variable_of(table, name)
        yield _row(f"{table}.{name}", value, origin, default, unit, variable=variable)


def _of_words(context: click.Context, words: tuple[str, ...], typed: list[str]) -> Iterator[Row]:
    """Yields the rows of a table, of a command, or of both if they have the same name."""
    root = context.find_root().command
    assert isinstance(root, click.Group)
    name = words[0]
    is_table = len(words) == 1 and name in SECTIONS
    if is_table:
        yield from _of_table(name)
    if not is_table or root.get_command(context, name) is not None:
        yield from _of_command(context, words, typed)


def _origin_at_the_top(root: click.Context, name: str) -> Origin:
    """Returns the origin of a setting in COMMON. The file's values have already been copied to the environment, so a
    variable with the same value as in the file counts as set by the file."""
    variable, settings = COMMON[name], settings_now()
    for param in root.command.params:
        if param.envvar == variable and origin_of(root, param).source is SettingSource.FLAG:
            return origin_of(root, param)
    value = os.environ.get(variable)
    if not value:
        return DEFAULT
    if settings.common.get(name) == value:
        return Origin(SettingSource.FILE, settings.file.at(name))
    return Origin(SettingSource.ENVIRONMENT, variable)


def _of_command(context: click.Context, path: tuple[str, ...], typed: list[str]) -> Iterator[Row]:
    found: click.Command | None = context.find_root().command
    inner = context.find_root()
    for name in path:
        found = found.get_command(inner, name) if isinstance(found, click.Group) else None
        if found is None:
            raise click.UsageError(
                f"there is no command or table {' '.join(path)}; tables are {', '.join(SECTIONS)}"
            )
        options = [] if isinstance(found, click.Group) else typed
        inner = found.make_context(name, list(options), parent=inner, resilient_parsing=True)
    assert found is not None
    if isinstance(found, click.Group):
        for name in found.list_commands(inner):
            yield from _of_command(context, (*path, name), typed)
        return
    for name, option in options_of(found):
        assert option.name is not None
        yield _row(
            f"{'.'.join(path)}.{name}",
            _plain(inner.params.get(option.name)),
            origin_of(inner, option),
            _plain(option.default),
            option.metavar or "",
            variable=str(option.envvar),
        )


def _row(setting: str, value: Any, origin: Origin, default: Any, unit: str = "", *, variable: str) -> Row:
    return {
        "setting": setting,
        "value": value,
        "source": origin.source.value,
        "where": origin.where,
        "default": default,
        "unit": unit,
        "variable": variable,
    }


def _plain(value: Any) -> Any:
    """Returns the value of an option as text or a number; None for click's marker of a missing value."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, int | float | str):
        return value
    return str(value) if isinstance(value, Path | tuple | list) and value else None
