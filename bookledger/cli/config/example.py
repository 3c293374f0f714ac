"""Generates an example settings file from the code: every setting, commented out at its default."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import Any

import click

from metadata.settings.file import COMMON
from metadata.settings.tunable import Tunable, defaults_of, ranged, shown, tunables_of, unit_of

from .command_options import inner_of, options_of
from .sections import SECTIONS

DAEMONS = (
    ("bookie", "run"),
    ("standalone",),
    ("autorecovery",),
    ("offloader",),
    ("journal", "serve"),
    ("console",),
)
"""Long-running commands, which users configure in a file rather than on the command line."""

COLUMNS = 100


def example_of(root: click.Group, defaults: Mapping[str, Any]) -> Iterator[str]:
    """Yields the lines of the file. `defaults`: those of the settings at the top."""
    yield "# Settings of bookledger: `bookledger --config FILE …`, or BOOKLEDGER_CONFIG=FILE. Options override the"
    yield "# environment, which overrides this file. `bookledger config check FILE` checks it."
    yield "# Each setting has an environment variable: polls_max in [limits] has BOOKLEDGER_LIMITS_POLLS_MAX, port in"
    yield "# [bookie.run] has BOOKLEDGER_BOOKIE_RUN_PORT. `bookledger config show` lists them with their values."
    yield "# Each line that is commented out shows the default, or <a description> of a setting without one."
    yield ""
    for name, variable in COMMON.items():
        yield from _setting(name, defaults.get(name), f"Also from {variable}.")
    for name in SECTIONS:
        yield from _section(name)
    for path in DAEMONS:
        yield from _command(root, path)


def _section(name: str) -> Iterator[str]:
    kind = SECTIONS[name].kind()
    values = defaults_of(kind)
    yield f"\n[{name}]  # {SECTIONS[name].told}"
    for field, one in tunables_of(kind).items():
        yield from _setting(field, shown(values[field]), f"{one.told} {_range(field, one)}")


def _range(name: str, one: Tunable) -> str:
    unit = unit_of(name, one)
    return f"({ranged(name, one)}{' ' + unit if unit else ''})" if one.kind in (int, float) else f"({unit})"


def _command(root: click.Group, path: tuple[str, ...]) -> Iterator[str]:
    found: click.Command = root
    for name in path:
        assert isinstance(found, click.Group)
        found = inner_of(found, name)
    yield f"\n[{'.'.join(path)}]  # options of `bookledger {' '.join(path)}`"
    for name, option in options_of(found):
        yield from _setting(name, _default(option), option.help or "")


def _default(option: click.Option) -> Any:
    value = option.default is True if option.is_flag else option.default
    return shown(value) if isinstance(shown(value), bool | int | float | str) and value != "" else None


def _setting(name: str, default: Any, told: str) -> Iterator[str]:
    for line in wrap(told, COLUMNS):
        yield f"# {line}"
    yield f"#{name} = {_toml(default) if default is not None else '<' + name + '>'}"


def _toml(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
