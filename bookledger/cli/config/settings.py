"""Settings of the commands: from a file, overridden by the environment, overridden by the command line.

    metadata = "etcd://etcd1:2379/prod"     at the top, settings of many commands: see COMMON
    [limits]                                settings of a component, by name: see SECTIONS
    polls_max = 4096
    [bookie.run]                            options of a command, as they are typed, without the dashes
    port = 3181

Each has an environment variable, such as BOOKLEDGER_LIMITS_POLLS_MAX and BOOKLEDGER_BOOKIE_RUN_PORT. An unknown key is
an error that names its line and the nearest known key.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click

from metadata.settings import settings_file as settings_file
from metadata.settings.settings_file import (
    COMMON,
    Faults,
    SettingsFile,
    check_name,
    in_environment,
    section,
    table_in,
)
from metadata.settings.tunable import elsewhere_of, tunables_of

from .command_options import inner_of, names_of, options_of
from .sections import SECTIONS

T = TypeVar("T")

NO_FILE = SettingsFile("", "", {})


class SettingsUsageError(click.UsageError):
    """A setting is invalid; the message states where and why."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings from the file, which is optional, and the environment."""

    file: SettingsFile = NO_FILE
    common: Mapping[str, str] = field(default_factory=dict)
    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Values from the file in the tables of SECTIONS."""
    tables: Mapping[str, Any] = field(default_factory=dict)
    """For each command, by name: its options, and the tables of its subcommands."""

    def into_environment(self) -> None:
        """Copies the common settings to environment variables, where the whole program looks for them, unless the
        variables are already set."""
        for name, value in self.common.items():
            if not os.environ.get(COMMON[name]):
                os.environ[COMMON[name]] = value

    def values(self, name: str) -> dict[str, Any]:
        """Returns the settings of a table of SECTIONS, for the dataclass's constructor. Raises SettingsUsageError."""
        return {**self.sections.get(name, {}), **self.in_environment(name)}

    def in_environment(self, name: str) -> dict[str, Any]:
        """Reads the environment variables of a table of SECTIONS. Raises SettingsUsageError."""
        with translate_to_usage_errors():
            return in_environment(SECTIONS[name].kind(), name)

    def made(self, name: str, kind: type[T], **more: Any) -> T:
        """Constructs the dataclass of a table, with `more` as further arguments.

        Raises SettingsUsageError if settings contradict each other, and ValueError if the table has no settings and the
        arguments alone are invalid.
        """
        values = self.values(name)
        if not values:
            return kind(**more)
        with translate_to_usage_errors():
            return settings_file.made(
                kind, {**values, **more}, f"{self.file.at(name) or 'environment'}: [{name}]"
            )

    def defaults_of(self, name: str, command: click.Command) -> dict[str, Any]:
        """Returns the defaults for click's `default_map`. Raises SettingsUsageError for options that the command
        lacks."""
        faults = Faults()
        with translate_to_usage_errors():
            found = self.valid_defaults_of(name, command, faults)
            faults.end()
            return found

    def valid_defaults_of(self, name: str, command: click.Command, faults: Faults) -> dict[str, Any]:
        """Returns the valid defaults for click's `default_map`, and adds the invalid ones to `faults`."""
        return self._defaults(command, self.tables.get(name, {}), (name,), faults)

    def _defaults(
        self, command: click.Command, table: Mapping[str, Any], path: tuple[str, ...], faults: Faults
    ) -> dict[str, Any]:
        found: dict[str, Any] = {}
        options = dict(options_of(command))
        for name, value in table.items():
            with faults.gathering():
                if isinstance(command, click.Group):
                    self._check(name, names_of(command), path)
                    inner = table_in(value, self.file, *path, name)
                    found[name] = self._defaults(inner_of(command, name), inner, (*path, name), faults)
                else:
                    self._check(name, options, path)
                    self._check_is_list(options[name], value, path, name)
                    found[str(options[name].name)] = value
        return found

    def where(self, path: Iterable[str], name: str) -> str:
        """Returns the location of a key in a command's table, as errors show it: `FILE:LINE: [bookie.run]`."""
        return f"{self.file.at(*path, name)}: [{'.'.join(path)}]"

    def _check(self, name: str, known: Iterable[str], path: tuple[str, ...]) -> None:
        if name in COMMON and name not in known:
            raise settings_file.BadSettings(
                f"{self.where(path, name)} {name}: this setting is for all commands, and belongs at the top of the file"
            )
        check_name(name, known, self.where(path, name))

    def _check_is_list(self, option: click.Option, value: Any, path: tuple[str, ...], name: str) -> None:
        if option.multiple and not isinstance(value, list):
            raise settings_file.BadSettings(
                f"{self.where(path, name)} {name}: this option takes a list of values: write [{value!r}]"
            )


@contextmanager
def translate_to_usage_errors() -> Iterator[None]:
    """Turns an error in a setting into a usage error, which click prints."""
    try:
        yield
    except settings_file.BadSettings as error:
        raise SettingsUsageError(str(error)) from None


def read(path: Path, commands: Mapping[str, Callable[[], click.Command]]) -> Settings:
    """Reads the file. Raises SettingsUsageError. `commands`: top-level commands, each imported when it is called."""
    faults = Faults()
    with translate_to_usage_errors():
        settings = read_valid(path, commands, faults)
        faults.end()
        return settings


def read_valid(path: Path, commands: Mapping[str, Callable[[], click.Command]], faults: Faults) -> Settings:
    """Reads the valid settings of the file, and adds the invalid ones to `faults`."""
    with faults.gathering():
        file = settings_file.read(path)
        whole = file.content
        sections: dict[str, dict[str, Any]] = {}
        tables: dict[str, Any] = {}
        for name in [name for name in whole if name not in COMMON]:
            with faults.gathering():
                check_name(name, [*COMMON, *SECTIONS, *commands], f"{file.at(name)}:")
                table = table_in(whole[name], file, name)
                own, inner = _parted(name, table) if name in commands else (table, {})
                if inner:
                    tables[name] = inner
                if name in SECTIONS:
                    sections[name] = _section(name, own, file, commands.get(name), faults)
        return Settings(file, {name: whole[name] for name in COMMON if name in whole}, sections, tables)
    return Settings(SettingsFile(str(path), "", {}))


def _section(
    name: str,
    own: Mapping[str, Any],
    file: SettingsFile,
    load: Callable[[], click.Command] | None,
    faults: Faults,
) -> dict[str, Any]:
    if load is not None:
        own = _without_commands(own, name, load, file, faults)
    return section(SECTIONS[name].kind(), own, file, name, faults)


def _parted(name: str, table: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Splits a command's table into its own settings and the tables of its subcommands. Most command tables have no
    settings of their own."""
    if name not in SECTIONS:
        return {}, dict(table)
    inner = {key: value for key, value in table.items() if isinstance(value, dict)}
    return {key: value for key, value in table.items() if key not in inner}, inner


def _without_commands(
    own: Mapping[str, Any], table: str, load: Callable[[], click.Command], file: SettingsFile, faults: Faults
) -> Mapping[str, Any]:
    """Returns the settings of the table, and reports keys that are neither settings nor tables of subcommands."""
    kind = SECTIONS[table].kind()
    known = {*tunables_of(kind), *elsewhere_of(kind)}
    for name in own.keys() - known:
        command = load()
        assert isinstance(command, click.Group)
        with faults.gathering():
            check_name(name, [*tunables_of(kind), *names_of(command)], f"{file.at(table, name)}: [{table}]")
            table_in(own[name], file, table, name)
    return {name: value for name, value in own.items() if name in known}


def settings_now() -> Settings:
    """Returns the settings of the running command."""
    context = click.get_current_context(silent=True)
    return Settings() if context is None else settings_of(context)


def settings_of(context: click.Context) -> Settings:
    """Returns the settings of this context's command."""
    found = context.find_root().obj
    return found if isinstance(found, Settings) else Settings()
