"""Lists the options of commands by the names that users type, and assigns each its environment variable."""

from __future__ import annotations

from collections.abc import Iterator

import click

from metadata.settings.environment import variable_of
from metadata.settings.settings_file import COMMON


def names_of(command: click.Group) -> list[str]:
    """Returns the names of a group's commands, including those that are imported only when they are called."""
    return command.list_commands(click.Context(command))


def inner_of(command: click.Group, name: str) -> click.Command:
    """Returns the command of this name, which is one of `names_of`."""
    inner = command.get_command(click.Context(command), name)
    assert inner is not None
    return inner


def options_of(command: click.Command) -> Iterator[tuple[str, click.Option]]:
    """Yields the options of a command that can be set, each with its name, except --help and those that are set at the
    top of the settings file."""
    for param in command.params:
        if not isinstance(param, click.Option) or param.envvar in COMMON.values() or param.is_eager:
            continue
        longest = max(param.opts, key=len)
        yield longest.lstrip("-"), param


def give_variables(command: click.Command, *path: str) -> None:
    """Assigns each option its environment variable: `bookie run --port` gets BOOKLEDGER_BOOKIE_RUN_PORT.

    click's `auto_envvar_prefix` would use the names of the functions' parameters, which users never see. A group that
    imports its commands on first use assigns their variables at that point.
    """
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            give_variables(inner, *path, name)
    for name, option in options_of(command):
        if option.envvar is None:
            option.envvar = variable_of(*path, name)
