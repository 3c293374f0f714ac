"""`bookledger config`: shows settings, and validates a settings file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from metadata.settings.file import COMMON
from metadata.settings.tunable import defaults_of, shown, tunables_of, unit_of

from ...admin.logs import LogFormat
from ..event_loop import EventLoop
from ..options import FilePath, json_option
from ..output import print_records
from ..terminal import say
from ..told.help import group
from .checking import check_file
from .example import example_of
from .settings import SECTIONS, Settings, options_of, settings_now

DEFAULTS = {"log-format": LogFormat.PLAIN.value, "event-loop": EventLoop.FASTEST.value}
"""Of what stands at the top; the rest has none."""

SOURCES = {
    ParameterSource.DEFAULT: "default",
    ParameterSource.DEFAULT_MAP: "file",
    ParameterSource.ENVIRONMENT: "environment",
}


@group()
def config() -> None:
    """Show and check what is set in a file (bookledger --config FILE) and in the environment.

    Examples:
        bookledger config check bookledger.toml
        bookledger config show bookie run
    """


@config.command()
@click.argument("path", type=FilePath())
@click.pass_context
def check(context: click.Context, path: Path) -> None:
    """Check a file of settings: every name and every value, of all commands.

    Examples:
        bookledger config check /etc/bookledger.toml
    """
    root = context.find_root().command
    assert isinstance(root, click.Group)

    check_file(path, root, context)
    say(f"{path} is right")


@config.command()
@click.argument("command", nargs=-1, metavar="[COMMAND]...")
@json_option
@click.pass_context
def show(context: click.Context, command: tuple[str, ...], as_json: bool) -> None:
    """Show what is set for all commands, or for COMMAND (such as: bookie run), and where.

    Examples:
        bookledger config show
        bookledger --config bookledger.toml config show bookie run
    """
    rows = list(_of_command(context, command)) if command else list(_of_all(settings_now()))
    print_records(rows, as_json=as_json, none="nothing can be set")


@config.command()
@click.pass_context
def example(context: click.Context) -> None:
    """Print a file of settings with all that can be set, commented out at its default.

    Examples:
        bookledger config example > bookledger.toml
    """
    root = context.find_root()
    assert isinstance(root.command, click.Group)
    for line in example_of(root.command, DEFAULTS):
        click.echo(line)


def _of_all(settings: Settings) -> Iterator[dict[str, Any]]:
    for name, variable in COMMON.items():
        value = os.environ.get(variable) or None
        is_ours = settings.common.get(name) == value and value is not None
        source = "default" if value is None else "file" if is_ours else "environment"
        yield {
            "setting": name,
            "value": value or DEFAULTS.get(name),
            "source": source,
            "default": DEFAULTS.get(name),
            "unit": "",
        }
    for table, section in SECTIONS.items():
        kind, given = section.kind(), settings.values(table)
        defaults = defaults_of(kind)
        for name, one in tunables_of(kind).items():
            yield {
                "setting": f"{table}.{name}",
                "value": shown(given.get(name, defaults[name])),
                "source": "file" if name in given else "default",
                "default": shown(defaults[name]),
                "unit": unit_of(name, one),
            }


def _of_command(context: click.Context, path: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    found: click.Command | None = context.find_root().command
    inner = context.find_root()
    for name in path:
        found = found.get_command(inner, name) if isinstance(found, click.Group) else None
        if found is None:
            raise click.UsageError(f"there is no command {' '.join(path)}")
        inner = found.make_context(name, [], parent=inner, resilient_parsing=True)
    assert found is not None
    if isinstance(found, click.Group):
        for name in found.list_commands(inner):
            yield from _of_command(context, (*path, name))
        return
    for name, option in options_of(found):
        assert option.name is not None
        source = inner.get_parameter_source(option.name)
        yield {
            "setting": f"{'.'.join(path)}.{name}",
            "value": _plain(inner.params.get(option.name)),
            "source": SOURCES.get(source, "default") if source is not None else "default",
            "default": _plain(option.default),
            "unit": option.metavar or "",
        }


def _plain(value: Any) -> Any:
    """A value of an option, to be shown; none for what click has where there is none."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, int | float | str):
        return value
    return str(value) if isinstance(value, Path | tuple | list) and value else None
