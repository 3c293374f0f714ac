"""Settings of the commands: from a file, overridden by the environment, overridden by the command line.

    metadata = "etcd://etcd1:2379/prod"     at the top what many commands take: see COMMON
    [limits]                                settings of a component, by name: see SECTIONS
    polls_max = 4096
    [bookie.run]                            options of a command, as they are typed, without the dashes
    port = 3181

An unknown key is an error that names the nearest one.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click

from metadata.settings import file as settings_file
from metadata.settings.file import COMMON, Faults, check_name, section, table_in
from metadata.settings.tunable import elsewhere_of, tunables_of

T = TypeVar("T")


class Section(NamedTuple):
    """A table of the file, the dataclass it sets, and for whom."""

    module: str
    name: str
    told: str

    def kind(self) -> type:
        """Imports it: most commands need none of them."""
        kind = getattr(importlib.import_module(self.module), self.name)
        assert isinstance(kind, type)
        return kind


SECTIONS = {
    "limits": Section("bookie.limits_config", "Limits", "what peers can make a bookie hold"),
    "bookie": Section("bookie.config", "BookieConfig", "a bookie, beside the options of `bookie run`"),
    "upkeep": Section(
        "bookie.upkeep_config", "UpkeepConfig", "how a bookie is kept in order, and the auditor"
    ),
    "http": Section("bookledger.admin.http.config", "HttpConfig", "the port of --http, and the console"),
    "logs": Section("bookledger.cli.audit_log", "LogsConfig", "the file of --audit-log"),
    "client": Section("ledgers.config", "ClientConfig", "commands that read and write ledgers, and programs"),
    "journal": Section(
        "qjm_compat.config", "JournalConfig", "writers and readers of journals, and acceptors"
    ),
    "journal-node": Section(
        "qjm_compat.hadoop.limits", "NodeLimits", "`journal serve`: what NameNodes can make it hold"
    ),
}
"""Tables that set what is no option of a command."""


class BadSettings(click.UsageError):
    """The file cannot be used; says where and why."""


@dataclass(frozen=True, slots=True)
class Settings:
    """A file's content; without a file, nothing."""

    path: Path | None = None
    common: Mapping[str, str] = field(default_factory=dict)
    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What is set in the tables of SECTIONS."""
    tables: Mapping[str, Any] = field(default_factory=dict)
    """By the name of a command: its options, or its own commands."""

    def into_environment(self) -> None:
        """What is common goes where every part of the program looks for it, unless something is there already."""
        for name, value in self.common.items():
            if not os.environ.get(COMMON[name]):
                os.environ[COMMON[name]] = value

    def values(self, name: str) -> dict[str, Any]:
        """What a table of SECTIONS sets, for the dataclass's constructor."""
        return dict(self.sections.get(name, {}))

    def made(self, name: str, kind: type[T], **more: Any) -> T:
        """The dataclass of a table, with what else it takes.

        Raises BadSettings where they contradict each other, ValueError where the file says nothing.
        """
        if not self.values(name):
            return kind(**more)
        with told_as_usage():
            return settings_file.made(kind, {**self.values(name), **more}, f"{self.path}: [{name}]")

    def defaults_of(self, name: str, command: click.Command) -> dict[str, Any]:
        """For click's `default_map`. Raises BadSettings for what the command does not know."""
        faults = Faults()
        with told_as_usage():
            found = self.well_defaults_of(name, command, faults)
            faults.end()
            return found

    def well_defaults_of(self, name: str, command: click.Command, faults: Faults) -> dict[str, Any]:
        """Of these what is well; the rest is among the faults."""
        return self._defaults(command, self.tables.get(name, {}), name, faults)

    def _defaults(
        self, command: click.Command, table: Mapping[str, Any], where: str, faults: Faults
    ) -> dict[str, Any]:
        found: dict[str, Any] = {}
        options = dict(options_of(command))
        for name, value in table.items():
            with faults.gathering():
                if isinstance(command, click.Group):
                    self._check(name, names_of(command), where)
                    inner = table_in(value, f"{where}.{name}", self.path)
                    found[name] = self._defaults(inner_of(command, name), inner, f"{where}.{name}", faults)
                else:
                    self._check(name, options, where)
                    self._check_is_list(options[name], value, f"[{where}] {name}")
                    found[str(options[name].name)] = value
        return found

    def _check(self, name: str, known: Iterable[str], where: str) -> None:
        if name in COMMON and name not in known:
            raise settings_file.BadSettings(
                f"{self.path}: [{where}] {name}: it stands at the top, for all commands"
            )
        check_name(name, known, f"{self.path}: [{where}]")

    def _check_is_list(self, option: click.Option, value: Any, where: str) -> None:
        if option.multiple and not isinstance(value, list):
            raise settings_file.BadSettings(
                f"{self.path}: {where}: it may stand there often: write [{value!r}]"
            )


@contextmanager
def told_as_usage() -> Iterator[None]:
    """What is wrong with a file is wrong usage of a command."""
    try:
        yield
    except settings_file.BadSettings as error:
        raise BadSettings(str(error)) from None


def names_of(command: click.Group) -> list[str]:
    """Of its commands, those too that are imported only when they are called."""
    return command.list_commands(click.Context(command))


def inner_of(command: click.Group, name: str) -> click.Command:
    """One of `names_of`."""
    inner = command.get_command(click.Context(command), name)
    assert inner is not None
    return inner


def options_of(command: click.Command) -> Iterator[tuple[str, click.Option]]:
    """What of a command can be set: its options as they are typed, but for what stands at the top, and --help."""
    for param in command.params:
        if not isinstance(param, click.Option) or param.envvar in COMMON.values() or param.is_eager:
            continue
        longest = max(param.opts, key=len)
        yield longest.lstrip("-"), param


def read(path: Path, commands: Mapping[str, Callable[[], click.Command]]) -> Settings:
    """Raises BadSettings. `commands`: those at the top, each imported when it is called."""
    faults = Faults()
    with told_as_usage():
        settings = read_well(path, commands, faults)
        faults.end()
        return settings


def read_well(path: Path, commands: Mapping[str, Callable[[], click.Command]], faults: Faults) -> Settings:
    """What is well of it; the rest is among the faults."""
    with faults.gathering():
        whole = settings_file.read(path)
        sections: dict[str, dict[str, Any]] = {}
        tables: dict[str, Any] = {}
        for name in [name for name in whole if name not in COMMON]:
            with faults.gathering():
                check_name(name, [*COMMON, *SECTIONS, *commands], f"{path}:")
                table = table_in(whole[name], name, path)
                own, inner = _parted(name, table) if name in commands else (table, {})
                if inner:
                    tables[name] = inner
                if name in SECTIONS:
                    sections[name] = _section(name, own, path, commands.get(name), faults)
        return Settings(path, {name: whole[name] for name in COMMON if name in whole}, sections, tables)
    return Settings(path)


def _section(
    name: str,
    own: Mapping[str, Any],
    path: Path,
    load: Callable[[], click.Command] | None,
    faults: Faults,
) -> dict[str, Any]:
    if load is not None:
        own = _without_commands(own, name, load, path, faults)
    return section(SECTIONS[name].kind(), own, f"{path}: [{name}]", faults)


def _parted(name: str, table: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a command's table sets besides its own commands, and those: they are tables. Most commands have no first."""
    if name not in SECTIONS:
        return {}, dict(table)
    inner = {key: value for key, value in table.items() if isinstance(value, dict)}
    return {key: value for key, value in table.items() if key not in inner}, inner


def _without_commands(
    own: Mapping[str, Any], table: str, load: Callable[[], click.Command], path: Path, faults: Faults
) -> Mapping[str, Any]:
    """What is no setting of the table is told of here: it may be meant for a command, which is a table of its own."""
    kind = SECTIONS[table].kind()
    known = {*tunables_of(kind), *elsewhere_of(kind)}
    for name in own.keys() - known:
        command = load()
        assert isinstance(command, click.Group)
        with faults.gathering():
            check_name(name, [*tunables_of(kind), *names_of(command)], f"{path}: [{table}]")
            table_in(own[name], f"{table}.{name}", path)
    return {name: value for name, value in own.items() if name in known}


def settings_now() -> Settings:
    """Those of the command that runs."""
    context = click.get_current_context(silent=True)
    found = None if context is None else context.find_root().obj
    return found if isinstance(found, Settings) else Settings()
