"""Validates a settings file: every name and value of all commands, and combinations that are not allowed."""

from __future__ import annotations

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
from metadata.open import check_uri
from metadata.secret_file import read_key
from metadata.settings.file import BadSettings as FileError
from metadata.settings.file import Faults
from metadata.settings.tunable import required_of

from ...admin.logs import LogFormat
from ..event_loop import EventLoop
from .settings import SECTIONS, BadSettings, Settings, inner_of, read_well, told_as_usage

SHAPE = ("ensemble_size", "write_quorum", "ack_quorum")
OF_ONE, OF_ALL = "_a_peer_max", "_max"
"""How the bound of one peer ends, and that of all."""


def check_file(path: Path, root: click.Group, context: click.Context) -> None:
    """Raises BadSettings with a line for each thing that is wrong."""

    def load(name: str) -> click.Command:
        command = root.get_command(click.Context(root), name)
        assert command is not None
        return command

    faults = Faults()
    settings = read_well(path, {name: partial(load, name) for name in root.list_commands(context)}, faults)
    for name in SECTIONS:
        with _gathering(faults):
            _check_section(settings, name)
    for name in settings.tables:
        with _gathering(faults):
            command = load(name)
            _check_command(settings, command, settings.well_defaults_of(name, command, faults), name, faults)
    for name, value in settings.common.items():
        with _gathering(faults):
            _check_common(f"{path}: {name}", name, value)
    with told_as_usage():
        faults.end()


@contextmanager
def _gathering(faults: Faults) -> Iterator[None]:
    with faults.gathering():
        try:
            yield
        except BadSettings as error:
            raise FileError(error.message) from None


def _check_section(settings: Settings, name: str) -> None:
    kind, given = SECTIONS[name].kind(), settings.values(name)
    if not required_of(kind):
        settings.made(name, kind)
    for one in given:
        whole = one.replace(OF_ONE, OF_ALL)
        if one.endswith(OF_ONE) and whole in given and given[one] > given[whole]:
            why = f"{one} is {given[one]}, more than all may have together: {whole} is {given[whole]}"
            raise BadSettings(f"{settings.path}: [{name}] {why}")


# --- commands -------------------------------------------------------------------------------------


def _check_command(
    settings: Settings, command: click.Command, values: Mapping[str, Any], where: str, faults: Faults
) -> None:
    if isinstance(command, click.Group):
        for name, inner in values.items():
            _check_command(settings, inner_of(command, name), inner, f"{where}.{name}", faults)
        return
    by_name = {param.name: param for param in command.params}
    taken: dict[str, Any] = {}
    for name, value in values.items():
        with _gathering(faults):
            taken[name] = _value(by_name[name], value, f"{settings.path}: [{where}]", where)
    with _gathering(faults):
        _check_shape(command, taken, f"{settings.path}: [{where}]")


def _value(param: click.Parameter, value: Any, told: str, where: str) -> Any:
    """As the command would have it, which says by itself what it cannot take."""
    try:
        return param.process_value(click.Context(click.Command(where)), value)
    except click.UsageError as error:
        raise BadSettings(f"{told} {max(param.opts, key=len).lstrip('-')}: {error.message}") from None


def _check_shape(command: click.Command, values: Mapping[str, Any], told: str) -> None:
    """What would be a ledger's: an ensemble and its quorums."""
    options = {param.name: param for param in command.params}
    if not values.keys() & set(SHAPE) or not set(SHAPE) <= options.keys():
        return
    usual = {name: option.default for name, option in options.items() if isinstance(option.default, int)}
    try:
        NewLedger(**{name: values.get(name, usual.get(name)) for name in SHAPE})
    except ValueError as error:
        raise BadSettings(f"{told} {error}") from None


# --- what is for all ------------------------------------------------------------------------------


def _check_common(told: str, name: str, value: str) -> None:
    try:
        _COMMON[name](value)
    except (ValueError, OSError, BadMetadataUri, BadCertificates, NoIdentity, click.ClickException) as error:
        why = error.message if isinstance(error, click.ClickException) else error
        raise BadSettings(f"{told}: {why}") from None


def _check_audit_log(value: str) -> None:
    directory = Path(value).absolute().parent
    if not value or Path(value).is_dir() or not directory.is_dir():
        raise ValueError(f"{value!r} is no file in a directory that is there")


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
}
