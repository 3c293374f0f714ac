"""Formats `--help`: options and commands under headings, with examples at the end.

Examples are at the end of a command's docstring, one per line, after a line `Examples:`. They are shown unwrapped, so
that they can be copied.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

Headings = Mapping[str, Sequence[str]]
"""The items under a heading, in order: options as they are typed, or the names of commands."""

NONE: Headings = {}
SHORT_HELP_CHARACTERS_MAX = 200
"""Maximum length of a command's text in its group's help; longer than any first sentence, so that none is truncated."""

OPTIONS = "Options"
COMMANDS = "Commands"
EXAMPLES = "Examples"


class _WithExamples(click.Command):
    """A command whose options may have headings, and whose docstring ends with examples."""

    def __init__(self, *args: Any, headings: Headings = NONE, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.headings = headings
        self.help, self.examples = _apart(self.help)

    def write_options(self, ctx: click.Context, formatter: click.HelpFormatter, headings: Headings) -> None:
        """Writes options under headings; those without a heading are at the end, with --help."""
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        rows = {max(one.opts, key=len): one.get_help_record(ctx) for one in options}
        left = {name: row for name, row in rows.items() if row is not None}
        for heading, names in headings.items():
            with formatter.section(heading):
                formatter.write_dl([left.pop(name) for name in names])
        with formatter.section(f"Other {OPTIONS.lower()}" if headings else OPTIONS):
            formatter.write_dl(list(left.values()))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        if self.examples:
            with formatter.section(EXAMPLES):
                for line in self.examples:
                    formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


class Command(_WithExamples):
    """A command; `headings` group its options."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.write_options(ctx, formatter, self.headings)


class CommandGroup(_WithExamples, click.Group):
    """A group; `headings` group its commands. Its commands are of class Command, its subgroups of CommandGroup."""

    command_class = Command
    group_class = type

    def short_help_of(self, ctx: click.Context, name: str) -> str:
        """Returns the first sentence of a command's help, uncut."""
        command = self.get_command(ctx, name)
        return command.get_short_help_str(SHORT_HELP_CHARACTERS_MAX) if command else ""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.write_options(ctx, formatter, NONE)
        for heading, names in (self.headings or {COMMANDS: self.list_commands(ctx)}).items():
            with formatter.section(heading):
                formatter.write_dl([(name, self.short_help_of(ctx, name)) for name in names])


def command(name: str | None = None, *, headings: Headings = NONE) -> Callable[[Callable[..., Any]], Command]:
    """Like `click.command`, but with headings and examples in the help."""
    return click.command(name, cls=Command, headings=headings)


def group(
    name: str | None = None, *, headings: Headings = NONE
) -> Callable[[Callable[..., Any]], CommandGroup]:
    """Like `click.group`, but with headings and examples in the help."""
    return click.group(name, cls=CommandGroup, headings=headings)


def _apart(text: str | None) -> tuple[str | None, tuple[str, ...]]:
    """Splits the help into text and examples."""
    if text is None:
        return None, ()
    description, _, examples = inspect.cleandoc(text).partition(f"\n\n{EXAMPLES}:\n")
    return description, tuple(inspect.cleandoc(examples).splitlines())
