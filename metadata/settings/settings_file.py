"""Reads the settings file, in TOML: each program reads its own tables; unknown names are reported with their line.

metadata = "etcd://etcd1:2379/prod"     at the top: settings of all programs, see COMMON
[client]                                settings of one class, by the names of its fields (`tunable`)
pending_bytes_max = 67108864

Environment variables override each of these (`environment`).
"""

from __future__ import annotations

import codecs
import difflib
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from ..secret_file import KEY_FILE_VARIABLE, read_key
from .environment import BadVariable, from_environment
from .tunable import Tunable, convert_value, elsewhere_of, tunables_of

STATEMENT_LINES_MAX = 1000
"""Maximum number of lines of a value; after a longer value, the line numbers of keys are unknown."""

Keys = tuple[str, ...]
"""A key preceded by the tables that contain it: ("bookie", "run", "port")."""


def lines_of(text: str) -> dict[Keys, int]:
    """Returns the line on which each table and each key of valid TOML begins; the first line is 1."""
    found: dict[Keys, int] = {}
    table: Keys = ()
    statement: list[str] = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        statement.append(line)
        if len(statement) > STATEMENT_LINES_MAX:
            break
        try:
            parsed = tomllib.loads("\n".join(statement))
        except tomllib.TOMLDecodeError:  # the statement continues on the next line
            continue
        begins = number - len(statement) + 1
        if statement[0].lstrip().startswith("["):
            table = _deepest(parsed)
            _note(found, ((table[:depth], begins) for depth in range(1, len(table) + 1)))
        else:
            _note(found, ((table + keys, begins) for keys in _paths(parsed)))
        statement = []
    return found


def _note(found: dict[Keys, int], places: Iterator[tuple[Keys, int]]) -> None:
    for keys, line in places:
        found.setdefault(keys, line)


def _deepest(parsed: Any) -> Keys:
    """Returns the path that a table header opens; the header may be that of an array of tables."""
    if isinstance(parsed, list):
        return _deepest(parsed[0])
    for key, inner in parsed.items():
        return (key, *_deepest(inner))
    return ()


def _paths(parsed: Mapping[str, Any]) -> Iterator[Keys]:
    for key, value in parsed.items():
        yield (key,)
        if isinstance(value, dict):
            yield from ((key, *inner) for inner in _paths(value))


FILE_BYTES_MAX = 1024 * 1024

CERTIFICATES_VARIABLE = "BOOKLEDGER_CERTS"

COMMON = {
    "metadata": "BOOKLEDGER_METADATA",
    "certs": CERTIFICATES_VARIABLE,
    "key-file": KEY_FILE_VARIABLE,
    "audit-log": "BOOKLEDGER_AUDIT_LOG",
    "log-format": "BOOKLEDGER_LOG_FORMAT",
    "event-loop": "BOOKLEDGER_EVENT_LOOP",
    "cold": "BOOKLEDGER_COLD",
    "cold-options": "BOOKLEDGER_COLD_OPTIONS",
}
"""Names at the top of the file, and the environment variables that override them."""

LIKENESS = 0.8
"""Similarity above which an unknown name at the top of the file counts as a misspelling."""

T = TypeVar("T")


class BadSettings(ValueError):
    """The file cannot be used. The message has one line for each problem, with its place and the reason."""


class Faults:
    """Collects errors, so that all of them can be reported at once."""

    def __init__(self) -> None:
        self._faults: dict[str, None] = {}

    def found(self, fault: str) -> None:
        self._faults.setdefault(fault)

    @contextmanager
    def gathering(self) -> Iterator[None]:
        """Collects an error raised inside the block; the rest of the block is then skipped."""
        try:
            yield
        except BadSettings as error:
            for line in str(error).splitlines():
                self.found(line)

    def end(self) -> None:
        """Raises BadSettings if there were errors."""
        if self._faults:
            raise BadSettings("\n".join(self._faults))


@dataclass(frozen=True)
class SettingsFile:
    """A parsed file, and the line of each of its keys."""

    path: str
    text: str
    content: Mapping[str, Any]

    @cached_property
    def lines(self) -> dict[Keys, int]:
        """The line of each key; a key includes the tables that contain it."""
        return lines_of(self.text)

    def at(self, *keys: str) -> str:
        """Returns `FILE:LINE` for a key or a table, or only `FILE` if the line is unknown."""
        line = self.lines.get(keys)
        return self.path if line is None else f"{self.path}:{line}"


def read(path: str | Path) -> SettingsFile:
    """Reads the file; settings at its top must be text. Raises BadSettings."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise BadSettings(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > FILE_BYTES_MAX:
        raise BadSettings(f"{path} has more than {FILE_BYTES_MAX} bytes: it is not a settings file")
    try:
        text = content.removeprefix(codecs.BOM_UTF8).decode()
        found = SettingsFile(str(path), text, tomllib.loads(text))
    except UnicodeDecodeError as error:
        raise BadSettings(f"{path} is not UTF-8 text: byte {error.start + 1} cannot be read") from None
    except ValueError as error:
        raise BadSettings(f"{path} is not TOML: {error}") from None
    faults = Faults()
    for name in COMMON:
        if not isinstance(found.content.get(name, ""), str):
            faults.found(f"{found.at(name)}: {name} must be text in quotes, not {found.content[name]!r}")
    faults.end()
    return found


def check_name(name: str, known: Iterable[str], where: str) -> None:
    """Raises BadSettings for an unknown name, and suggests the most similar known name."""
    known = sorted(known)
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else f"; known names: {', '.join(known)}"
        raise BadSettings(f"{where} {name}: unknown name{hint}")


def table_in(value: Any, file: SettingsFile, *keys: str) -> Mapping[str, Any]:
    """Returns the table. Raises BadSettings if the value is not a table."""
    if not isinstance(value, dict):
        name = ".".join(keys)
        raise BadSettings(f"{file.at(*keys)}: {name} must be a table of settings, [{name}], not a value")
    return value


def section(
    kind: type, table: Mapping[str, Any], file: SettingsFile, name: str, faults: Faults
) -> dict[str, Any]:
    """Reads and checks the settings of a dataclass from the table of this name; adds any errors to `faults`."""
    elsewhere, known = elsewhere_of(kind), tunables_of(kind)
    found: dict[str, Any] = {}
    for field, value in table.items():
        where = f"{file.at(name, field)}: [{name}]"
        with faults.gathering():
            if field in elsewhere:
                raise BadSettings(f"{where} {field}: set {elsewhere[field]} instead")
            check_name(field, known, where)
            found[field] = _taken(field, known[field], value, where)
    return found


def _taken(name: str, one: Tunable, value: Any, where: str) -> Any:
    try:
        return convert_value(name, one, value)
    except ValueError as error:
        raise BadSettings(f"{where} {error}") from None


def made(kind: type[T], values: Mapping[str, Any], where: str) -> T:
    """Makes an instance of the dataclass with these values. Raises BadSettings if the values contradict each other."""
    try:
        return kind(**values)
    except ValueError as error:
        raise BadSettings(f"{where}: {error}") from None


# --- for programs --------------------------------------------------------------------------------


def of_program(path: str | Path, kind: type[T], name: str, **more: Any) -> T:
    """Makes an instance of a dataclass from the settings in the table of this name, and from the environment variables
    that belong to that table.

    Ignores other tables. `more`: values that the program itself sets. Raises BadSettings.
    """
    file = read(path)
    for other in file.content.keys() - {name, *COMMON}:
        meant = difflib.get_close_matches(other, [name, *COMMON], n=1, cutoff=LIKENESS)
        if meant:
            raise BadSettings(f"{file.at(other)}: {other}: unknown name; did you mean {meant[0]}?")
    faults = Faults()
    found = section(kind, table_in(file.content.get(name, {}), file, name), file, name, faults)
    faults.end()
    return made(kind, {**found, **in_environment(kind, name), **more}, f"{file.at(name)}: [{name}]")


def in_environment(kind: type, name: str) -> dict[str, Any]:
    """Reads the environment variables that belong to the table of this name. Raises BadSettings."""
    try:
        return from_environment(kind, name)
    except BadVariable as error:
        raise BadSettings(str(error)) from None


def metadata_uri_of(path: str | Path) -> str:
    """Returns the metadata URI from a settings file; the environment variable BOOKLEDGER_METADATA overrides it.

    Raises BadSettings if neither sets the URI.
    """
    uri = common(path, "metadata")
    if not uri:
        variable = COMMON["metadata"]
        raise BadSettings(
            f'{path} does not name the metadata: write metadata = "etcd://HOST:PORT/PREFIX" or '
            f'"sqlite:///PATH" at its top, or set {variable}'
        )
    return uri


def common(path: str | Path, name: str) -> str | None:
    """Returns a setting at the top of the file, or its value from the environment, which takes precedence. Raises
    BadSettings."""
    value = os.environ.get(COMMON[name]) or read(path).content.get(name)
    assert value is None or isinstance(value, str)
    return value


def key_in(path: str | Path) -> bytes | None:
    """Reads the key from the file that `key-file` names. Raises BadSettings if that file cannot be used."""
    name = common(path, "key-file")
    try:
        return read_key(name) if name else None
    except (OSError, ValueError) as error:
        raise BadSettings(f"{path}: key-file: {error}") from None
