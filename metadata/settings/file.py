"""Reads the settings file, in TOML: each program takes its own tables; unknown names are reported.

metadata = "etcd://etcd1:2379/prod"     at the top what all take: see COMMON
[client]                                settings of something, by the names of its fields (`tunable`)
pending_bytes_max = 67108864
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from ..secret_file import KEY_FILE_VARIABLE, read_key
from .tunable import Tunable, elsewhere_of, taken, tunables_of

FILE_BYTES_MAX = 1024 * 1024

CERTIFICATES_VARIABLE = "BOOKLEDGER_CERTS"

COMMON = {
    "metadata": "BOOKLEDGER_METADATA",
    "certs": CERTIFICATES_VARIABLE,
    "key-file": KEY_FILE_VARIABLE,
    "audit-log": "BOOKLEDGER_AUDIT_LOG",
    "log-format": "BOOKLEDGER_LOG_FORMAT",
    "event-loop": "BOOKLEDGER_EVENT_LOOP",
}
"""Names at the top of the file, and the environment variables that override them."""

LIKENESS = 0.8
"""Similarity above which an unknown name at the top counts as a misspelled one."""

T = TypeVar("T")


class BadSettings(ValueError):
    """The file cannot be used; says where and why, a line for each problem."""


class Faults:
    """Collects errors, to report all of them at once."""

    def __init__(self) -> None:
        self._told: dict[str, None] = {}

    def found(self, fault: str) -> None:
        self._told.setdefault(fault)

    @contextmanager
    def gathering(self) -> Iterator[None]:
        """Collects an error that is raised inside the block, and leaves the block."""
        try:
            yield
        except BadSettings as error:
            for line in str(error).splitlines():
                self.found(line)

    def end(self) -> None:
        """Raises BadSettings if there were errors."""
        if self._told:
            raise BadSettings("\n".join(self._told))


def read(path: str | Path) -> dict[str, Any]:
    """Reads the file; settings at its top must be text. Raises BadSettings."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise BadSettings(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > FILE_BYTES_MAX:
        raise BadSettings(f"{path} has more than {FILE_BYTES_MAX} bytes: it is no file of settings")
    try:
        whole = tomllib.loads(content.decode())
    except UnicodeDecodeError as error:
        raise BadSettings(f"{path} is no text in UTF-8: byte {error.start + 1} cannot be read") from None
    except ValueError as error:
        raise BadSettings(f"{path} is no TOML: {error}") from None
    faults = Faults()
    for name in COMMON:
        if not isinstance(whole.get(name, ""), str):
            faults.found(f"{path}: {name} is text in quotes, not {whole[name]!r}")
    faults.end()
    return whole


def check_name(name: str, known: Iterable[str], where: str) -> None:
    """Raises BadSettings for an unknown name, and suggests the nearest."""
    known = sorted(known)
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; is it {near[0]}?" if near else f"; there are: {', '.join(known)}"
        raise BadSettings(f"{where} {name}: nobody knows that{hint}")


def table_in(value: Any, name: str, path: str | Path | None) -> Mapping[str, Any]:
    """Returns the table. Raises BadSettings where it is none."""
    if not isinstance(value, dict):
        raise BadSettings(f"{path}: {name} is a table of settings, [{name}], and no value")
    return value


def section(kind: type, table: Mapping[str, Any], where: str, faults: Faults) -> dict[str, Any]:
    """Reads and checks the settings of a dataclass in a table. `where` names file and table."""
    elsewhere, known = elsewhere_of(kind), tunables_of(kind)
    found: dict[str, Any] = {}
    for name, value in table.items():
        with faults.gathering():
            if name in elsewhere:
                raise BadSettings(f"{where} {name}: it is set as {elsewhere[name]}")
            check_name(name, known, where)
            found[name] = _taken(name, known[name], value, where)
    return found


def _taken(name: str, one: Tunable, value: Any, where: str) -> Any:
    try:
        return taken(name, one, value)
    except ValueError as error:
        raise BadSettings(f"{where} {error}") from None


def made(kind: type[T], values: Mapping[str, Any], where: str) -> T:
    """Makes the dataclass with these values. Raises BadSettings where they contradict each other."""
    try:
        return kind(**values)
    except ValueError as error:
        raise BadSettings(f"{where}: {error}") from None


# --- for programs --------------------------------------------------------------------------------


def of_program(path: str | Path, kind: type, name: str) -> dict[str, Any]:
    """Reads the settings in the table of this name; ignores the tables of others. Raises BadSettings."""
    whole = read(path)
    for other in whole.keys() - {name, *COMMON}:
        meant = difflib.get_close_matches(other, [name, *COMMON], n=1, cutoff=LIKENESS)
        if meant:
            raise BadSettings(f"{path}: {other}: nobody knows that; is it {meant[0]}?")
    faults = Faults()
    found = section(kind, table_in(whole.get(name, {}), name, path), f"{path}: [{name}]", faults)
    faults.end()
    return found


def metadata_uri_of(path: str | Path) -> str:
    """The metadata URI by a settings file; BOOKLEDGER_METADATA in the environment overrides it.

    Raises BadSettings where neither has it.
    """
    uri = common(path, "metadata")
    if not uri:
        variable = COMMON["metadata"]
        raise BadSettings(
            f'{path} does not say where the metadata is: write metadata = "etcd://HOST:PORT/PREFIX" or '
            f'"sqlite:///PATH" at its top, or set {variable}'
        )
    return uri


def common(path: str | Path, name: str) -> str | None:
    """A setting at the top of the file, unless the environment overrides it. Raises BadSettings."""
    value = os.environ.get(COMMON[name]) or read(path).get(name)
    assert value is None or isinstance(value, str)
    return value


def key_in(path: str | Path) -> bytes | None:
    """Reads the key in the file that `key-file` names. Raises BadSettings for one that cannot be used."""
    name = common(path, "key-file")
    try:
        return read_key(name) if name else None
    except (OSError, ValueError) as error:
        raise BadSettings(f"{path}: key-file: {error}") from None
