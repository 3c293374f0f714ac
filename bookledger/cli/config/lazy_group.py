"""Groups that import each command on first use, so that no command waits for the imports of another."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click
from click.shell_completion import CompletionItem

from ..messages.help import CommandGroup
from .command_options import give_variables

Place = tuple[str, str, str]
"""A command's module, its name in that module, and its short help."""


class LazyGroup(CommandGroup):
    """Holds the name and short help of each command, for `--help` and TAB, and imports a command when it is called.

    `path` contains the words that call the group. Commands can also be added as in any other group.
    """

    def __init__(self, *args: Any, places: Mapping[str, Place], path: tuple[str, ...] = (), **options: Any):
        super().__init__(*args, **options)
        self._places = places
        self._path = path

    def imported(self, name: str) -> click.Command:
        """Imports and returns the command that `places` lists under this name."""
        module, attribute, _ = self._places[name]
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        give_variables(command, *self._path, name)
        return command

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *self._places]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return self.imported(cmd_name) if cmd_name in self._places else super().get_command(ctx, cmd_name)

    def short_help_of(self, ctx: click.Context, name: str) -> str:
        return self._places[name][2] if name in self._places else super().short_help_of(ctx, name)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Completes commands without importing any; click completes the options."""
        found = [
            CompletionItem(name, help=self.short_help_of(ctx, name))
            for name in self.list_commands(ctx)
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)
