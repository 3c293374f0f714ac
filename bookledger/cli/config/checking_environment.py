"""Checks the environment variables of all options and settings, and finds misspelt ones."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator

import click

from metadata.settings.environment import PREFIX, variable_of
from metadata.settings.settings_file import COMMON, BadSettings, Faults, in_environment
from metadata.settings.tunable import tunables_of

from .command_options import inner_of, names_of, options_of
from .sections import SECTIONS

OTHERS = (variable_of("config"), variable_of("verbose"))
"""Variables that are read before any command."""

LIKENESS = 0.8
"""A variable that is this similar to a known one is reported as its misspelling."""


def check_environment(root: click.Group, faults: Faults) -> None:
    """Adds a fault for each variable that has a wrong value, and for each that no setting has."""
    known = {*COMMON.values(), *OTHERS}
    for table, section in SECTIONS.items():
        with faults.gathering():
            in_environment(section.kind(), table)
        known.update(variable_of(table, name) for name in tunables_of(section.kind()))
    for name in names_of(root):
        for option in _options_below(inner_of(root, name)):
            known.add(str(option.envvar))
            with faults.gathering():
                _check(option)
    for variable in sorted(os.environ):
        if variable.startswith(f"{PREFIX}_") and variable not in known:
            near = difflib.get_close_matches(variable, known, n=1, cutoff=LIKENESS)
            faults.found(
                f"{variable}: no setting has this variable{f'; did you mean {near[0]}?' if near else ''}"
            )


def _options_below(command: click.Command) -> Iterator[click.Option]:
    if isinstance(command, click.Group):
        for name in names_of(command):
            yield from _options_below(inner_of(command, name))
    for _, option in options_of(command):
        yield option


def _check(option: click.Option) -> None:
    """Converts the variable as the command would. Raises BadSettings if the command would refuse it."""
    context = click.Context(click.Command(""))
    value = option.value_from_envvar(context)
    if value is None:
        return
    try:
        option.process_value(context, value)
    except click.UsageError as error:
        raise BadSettings(f"{option.envvar}: {error.message}") from None
