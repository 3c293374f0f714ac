"""Finds the origin of the value of an option or a setting: a default, the file, the environment or a flag."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import click
from click.core import ParameterSource

from metadata.settings.environment import variable_of

from .settings import Settings, settings_of


class SettingSource(StrEnum):
    """Where a setting can come from, from the lowest precedence to the highest."""

    DEFAULT = "default"
    FILE = "file"
    ENVIRONMENT = "environment"
    FLAG = "flag"


_SOURCES = {
    ParameterSource.DEFAULT_MAP: SettingSource.FILE,
    ParameterSource.ENVIRONMENT: SettingSource.ENVIRONMENT,
    ParameterSource.COMMANDLINE: SettingSource.FLAG,
}


class Origin(NamedTuple):
    """The origin of one value. `where` is `FILE:LINE`, the name of a variable, or an option; empty for a default."""

    source: SettingSource
    where: str = ""

    @property
    def is_set_elsewhere(self) -> bool:
        """Whether the value is from the file or the environment, so that an error about it must name its origin."""
        return self.source in (SettingSource.FILE, SettingSource.ENVIRONMENT)


DEFAULT = Origin(SettingSource.DEFAULT)


def origin_of(context: click.Context, param: click.Parameter) -> Origin:
    """Returns the origin of an option of the command that runs in this context."""
    assert param.name is not None
    source = context.get_parameter_source(param.name)
    typed = max(param.opts, key=len)
    match _SOURCES.get(source) if source is not None else None:
        case SettingSource.FLAG:
            return Origin(SettingSource.FLAG, typed)
        case SettingSource.ENVIRONMENT:
            return Origin(SettingSource.ENVIRONMENT, str(param.envvar))
        case SettingSource.FILE:
            return Origin(
                SettingSource.FILE, settings_of(context).file.at(*_path(context), typed.lstrip("-"))
            )
    return DEFAULT


def origin_in_table(settings: Settings, table: str, name: str) -> Origin:
    """Returns the origin of a setting in one of the tables of SECTIONS."""
    if name in settings.in_environment(table):
        return Origin(SettingSource.ENVIRONMENT, variable_of(table, name))
    if name in settings.sections.get(table, {}):
        return Origin(SettingSource.FILE, settings.file.at(table, name))
    return DEFAULT


def _path(context: click.Context) -> list[str]:
    """Returns the names of the groups and the command, without the program's name."""
    names = []
    while context.parent is not None:
        names.append(str(context.info_name))
        context = context.parent
    return names[::-1]
