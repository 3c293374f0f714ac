"""Validates a settings file: every name and every value, for all commands, and combinations that are not allowed."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

import click

from bookie.wire.trust.certificates import BadCertificates, Certificates
from bookie.wire.trust.identity import NoIdentity
from ledgers import NewLedger
from metadata.errors import BadMetadataUri
from metadata.records.cold.cold_copy import check_url
from metadata.secret_file import read_bounded, read_key
from metadata.settings.environment import PREFIX, variable_of
from metadata.settings.settings_file import COMMON, BadSettings, Faults, in_environment
from metadata.settings.settings_file import BadSettings as FileError
from metadata.settings.tunable import required_of, tunables_of
from metadata.store_factory import check_uri

from ...admin.log_formats import LogFormat
from ..event_loop import EventLoop
from .command_options import inner_of, names_of, options_of
from .sections import SECTIONS
from .settings import Settings, SettingsUsageError, read_valid, translate_to_usage_errors

OTHERS = (variable_of("config"), variable_of("verbose"))
"""Environment variables that are read before any command runs."""

LIKENESS = 0.8
"""Minimum similarity to a known variable at which an unknown variable is reported as a misspelling of it."""


def check_environment(root: click.Group, faults: Faults) -> None:
    """Adds a fault for each environment variable that has an invalid value, and for each that does not belong to any
    setting."""
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


SHAPE = ("ensemble_size", "write_quorum", "ack_quorum")


def check(path: Path | None, root: click.Group) -> None:
    """Checks the file, if one is given, and the environment. Raises SettingsUsageError with a line for each fault."""
    faults = Faults()
    if path is not None:
        _check_file(path, root, faults)
    check_environment(root, faults)
    with translate_to_usage_errors():
        faults.end()


def _check_file(path: Path, root: click.Group, faults: Faults) -> None:
    commands = {name: partial(inner_of, root, name) for name in names_of(root)}
    settings = read_valid(path, commands, faults)
    for name in SECTIONS:
        with _gathering(faults):
            _check_section(settings, name)
    for name in settings.tables:
        with _gathering(faults):
            command = inner_of(root, name)
            values = settings.valid_defaults_of(name, command, faults)
            _check_command(settings, command, values, (name,), faults)
    for name, value in settings.common.items():
        with _gathering(faults):
            _check_common(f"{settings.file.at(name)}: {name}", name, value)


@contextmanager
def _gathering(faults: Faults) -> Iterator[None]:
    with faults.gathering():
        try:
            yield
        except SettingsUsageError as error:
            raise FileError(error.message) from None


def _check_section(settings: Settings, name: str) -> None:
    kind = SECTIONS[name].kind()
    if required_of(kind):  # a command constructs the dataclass, and provides the required values
        settings.values(name)
    else:
        settings.made(name, kind)


# --- commands -------------------------------------------------------------------------------------


def _check_command(
    settings: Settings,
    command: click.Command,
    values: Mapping[str, Any],
    path: tuple[str, ...],
    faults: Faults,
) -> None:
    if isinstance(command, click.Group):
        for name, inner in values.items():
            _check_command(settings, inner_of(command, name), inner, (*path, name), faults)
        return
    by_name = {option.name: (typed, option) for typed, option in options_of(command)}
    taken: dict[str, Any] = {}
    for name, value in values.items():
        typed, option = by_name[name]
        with _gathering(faults):
            taken[name] = _value(option, value, f"{settings.where(path, typed)} {typed}", path[-1])
    with _gathering(faults):
        _check_shape(command, taken, f"{settings.file.at(*path)}: [{'.'.join(path)}]")


def _value(option: click.Option, value: Any, place: str, command: str) -> Any:
    """Converts the value as the command would. Raises SettingsUsageError, with the option's reason, if the value is
    refused."""
    try:
        return option.process_value(click.Context(click.Command(command)), value)
    except click.UsageError as error:
        raise SettingsUsageError(f"{place}: {error.message}") from None


def _check_shape(command: click.Command, values: Mapping[str, Any], place: str) -> None:
    """Checks the ensemble and the quorums of a ledger."""
    options = {param.name: param for param in command.params}
    if not values.keys() & set(SHAPE) or not set(SHAPE) <= options.keys():
        return
    usual = {name: option.default for name, option in options.items() if isinstance(option.default, int)}
    try:
        NewLedger(**{name: values.get(name, usual.get(name)) for name in SHAPE})
    except ValueError as error:
        raise SettingsUsageError(f"{place} {error}") from None


# --- common settings ------------------------------------------------------------------------------


def _check_common(place: str, name: str, value: str) -> None:
    try:
        _COMMON[name](value)
    except (ValueError, OSError, BadMetadataUri, BadCertificates, NoIdentity, click.ClickException) as error:
        why = error.message if isinstance(error, click.ClickException) else error
        raise SettingsUsageError(f"{place}: {why}") from None


def _check_audit_log(value: str) -> None:
    directory = Path(value).absolute().parent
    if not value or Path(value).is_dir() or not directory.is_dir():
        raise ValueError(f"{value!r} is not a file in an existing directory")


def _check_is_one_of(known: type[Enum], value: str) -> None:
    names = [one.value for one in known]
    if value not in names:
        raise ValueError(f"{value!r} is not one of {', '.join(names)}")


def _check_certificates(value: str) -> None:
    _ = Certificates(value).identity


_COMMON: Mapping[str, Callable[[str], object]] = {
    "metadata": check_uri,
    "certs": _check_certificates,
    "key-file": read_key,
    "audit-log": _check_audit_log,
    "log-format": partial(_check_is_one_of, LogFormat),
    "event-loop": partial(_check_is_one_of, EventLoop),
    "cold": check_url,
    "cold-options": partial(read_bounded, private=True),
}
