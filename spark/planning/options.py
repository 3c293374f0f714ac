"""Parses and validates the options of the data sources: a mistyped option is always an error."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql.types import StructType

from ..entry_columns import DEFAULT_COLUMNS, TYPES
from ..executor_access import ExecutorAccess, access_of
from .journal_segments import DEFAULT_ACCEPTOR
from .ranges import PARTITION_BYTES_DEFAULT, PARTITIONS_MIN_DEFAULT, LedgerRange
from .selection import BadSelection, Extent, Selection, parse_ledgers

if TYPE_CHECKING:
    import pyarrow as pa
import asyncio
from dataclasses import replace

from ledgers.aio import LedgerClient

from .ranges import cost_of, plan, task_bytes

SHARE_MEASURED = 4
"""A ledger is measured if it costs more than a task's size divided by this; smaller ledgers hardly affect a task's
size."""

STEPS_A_TASK = 16
"""Resolution at which the sizes of ledgers are measured: a step is a task's size divided by this."""

ASKED_AT_ONCE_MAX = 16


async def equal_tasks(
    uri: str, extents: Sequence[Extent], partition_bytes: int, partitions_min: int
) -> list[tuple[LedgerRange, ...]]:
    """Divides the extents into tasks as `plan` does, with sizes reported by the bookies; if bookies report none,
    assumes that bytes are evenly distributed."""
    task = task_bytes(extents, partition_bytes, partitions_min)
    large = [i for i, extent in enumerate(extents) if _cost(extent) * SHARE_MEASURED > task]
    found = list(extents)
    if large:
        measured = await _measured(uri, [extents[i] for i in large], max(1, task // STEPS_A_TASK))
        for i, extent in zip(large, measured, strict=True):
            found[i] = extent
    return plan(found, partition_bytes, partitions_min)


def _cost(extent: Extent) -> int:
    return cost_of(extent, extent.first_entry, extent.end - 1)


async def _measured(uri: str, extents: Sequence[Extent], step_bytes: int) -> list[Extent]:
    turns = asyncio.Semaphore(ASKED_AT_ONCE_MAX)

    async def measure(client: LedgerClient, extent: Extent) -> Extent:
        async with turns:
            steps = await client.size_steps(
                extent.record,
                step_bytes=step_bytes,
                first_entry=extent.first_entry,
                last_entry=extent.last_entry,
            )
        return replace(extent, steps=steps)

    async with LedgerClient(uri) as client:
        return await asyncio.gather(*(measure(client, extent) for extent in extents))


CUSTOM_PREFIX = "custom."
"""`custom.NAME=VALUE` selects ledgers by custom metadata. NAME is case-insensitive, because Spark converts it to lower
case."""

COMMON = ("metadata", "password_file", "key_file", "partition_bytes", "partitions_min")
OF_STREAMS = ("max_bytes_per_trigger", "failOnDataLoss")
OF_LEDGERS = (*COMMON, "ledgers", "journal", "acceptors", "recover", "columns", *OF_STREAMS)


@dataclass(frozen=True, kw_only=True)
class ReadOptions(ABC):
    """Options of all formats: the cluster, the files with secrets (read by the driver), and the size of tasks."""

    metadata_uri: str
    password_file: str | None
    key_file: str | None
    partition_bytes: int
    partitions_min: int

    @staticmethod
    def common(given: Mapping[str, str]) -> dict[str, Any]:
        """Returns the fields common to all options classes, from options that were already checked. Raises
        BadSelection."""
        return {
            "metadata_uri": needed(given, "metadata"),
            "password_file": given.get("password_file"),
            "key_file": given.get("key_file"),
            "partition_bytes": number(given, "partition_bytes", PARTITION_BYTES_DEFAULT),
            "partitions_min": number(given, "partitions_min", PARTITIONS_MIN_DEFAULT),
        }

    def access(self) -> ExecutorAccess:
        """Reads the files named in the options, and returns their contents with the URI."""
        return access_of(self.metadata_uri, self.password_file, self.key_file)

    @abstractmethod
    def columns_of(self, schema: StructType) -> tuple[str, ...]:
        """Returns the names of the columns in a schema. Raises BadSelection if one is unknown or has the wrong type."""

    async def tasks(self, uri: str, extents: Sequence[Extent]) -> list[tuple[LedgerRange, ...]]:
        """Divides these extents into tasks of equal bytes."""
        return await equal_tasks(uri, extents, self.partition_bytes, self.partitions_min)


@dataclass(frozen=True, kw_only=True)
class StreamOptions(ReadOptions):
    """Options of the formats that support streams and selectable columns."""

    types: ClassVar[Mapping[str, tuple[str, pa.DataType]]]
    """Every column: its Spark type and its Arrow type."""

    columns: tuple[str, ...]
    fails_on_data_loss: bool | None
    """Value of the option failOnDataLoss, or None if the option is not given; the default is true."""

    @property
    def schema(self) -> str:
        """The columns as Spark DDL."""
        return ", ".join(f"{name} {self.types[name][0]}" for name in self.columns)

    def columns_of(self, schema: StructType) -> tuple[str, ...]:
        return typed_columns(schema, {name: ddl for name, (ddl, _) in self.types.items()})


@dataclass(frozen=True, kw_only=True)
class LedgerOptions(StreamOptions):
    """Options of `format("ledger")`.

    `metadata`: the cluster's URI. `ledgers`: ids and ranges such as `7,9,20-30,5:100-200`. `custom.NAME`: ledgers with
    this custom metadata, with or without `ledgers`. `journal`: the finalized segments of a journal, instead of these
    two. By default all ledgers are read. `recover`: fence and close selected open ledgers; not in streams. `columns`:
    the columns to read (default `ledger_id,entry_id,payload`); a schema given to `.schema(...)` does the same.
    `acceptors`: the names of the journal's acceptors, if it has several, as `a,b,c`. `max_bytes_per_trigger`: the rate
    limit, in streams only; at least one ledger is always delivered. `failOnDataLoss`: `false` skips, with a warning,
    data that was deleted before it was read; in streams only. `password_file`, `key_file`: read on the driver.
    `partition_bytes`, `partitions_min`: the size and number of partitions.
    """

    types = TYPES

    selection: Selection
    journal: str | None
    acceptors: tuple[str, ...]
    max_bytes_per_trigger: int | None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> LedgerOptions:
        """Parses the options. Raises BadSelection, which names the invalid option."""
        given = checked(options, OF_LEDGERS)
        _check_together(given)
        limit = number(given, "max_bytes_per_trigger", 0, least=0)
        return cls(
            **cls.common(given),
            selection=Selection(
                ids=parse_ledgers(given["ledgers"]) if "ledgers" in given else (),
                custom={
                    name.removeprefix(CUSTOM_PREFIX): value.encode()
                    for name, value in given.items()
                    if name.startswith(CUSTOM_PREFIX)
                },
                recover=truth(given, "recover"),
            ),
            columns=chosen_columns(given.get("columns"), TYPES, DEFAULT_COLUMNS),
            journal=given.get("journal"),
            acceptors=names(given, "acceptors", DEFAULT_ACCEPTOR),
            max_bytes_per_trigger=limit or None,
            fails_on_data_loss=truth(given, "failOnDataLoss") if "failondataloss" in given else None,
        )

    def for_batch(self) -> LedgerOptions:
        """Returns these options. Raises BadSelection for options that apply only to streams."""
        given = (self.max_bytes_per_trigger, self.fails_on_data_loss)
        for name, value in zip(OF_STREAMS, given, strict=True):
            if value is not None:
                raise BadSelection(f"the option {name} only applies to readStream: leave it out")
        return self

    def for_stream(self) -> LedgerOptions:
        """Returns these options. Raises BadSelection for options that apply only to batch reads."""
        if self.selection.recover:
            raise BadSelection(
                "the option recover does not apply to streams, which wait until a ledger is closed: leave it out, and "
                "close a ledger whose writer is gone with `bookledger ledger recover`"
            )
        return self


def typed_columns(schema: StructType, types: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the names of the columns in a schema. All of them must be known, have the right type, and be distinct."""
    _check_distinct(schema.fieldNames())
    for column in schema.fields:
        if column.name not in types:
            raise BadSelection(f"there is no column {column.name!r}: the columns are {', '.join(types)}")
        if column.dataType.simpleString() != types[column.name]:
            raise BadSelection(
                f"column {column.name} has type {types[column.name]}, not {column.dataType.simpleString()}"
            )
    return tuple(schema.fieldNames())


def checked(
    options: Mapping[str, str], known: Collection[str], *, prefix: str | None = CUSTOM_PREFIX
) -> dict[str, str]:
    """Returns the options by lower-case name. Raises BadSelection for an unknown one."""
    given = {name.lower(): value for name, value in options.items()}
    lower = {name.lower() for name in known}
    for name in given:
        if name not in lower and not (prefix and name.startswith(prefix) and name != prefix):
            others = f", {prefix}NAME" if prefix else ""
            raise BadSelection(f"option {name!r} is not known; the options are {', '.join(known)}{others}")
    return given


def _check_together(given: Mapping[str, str]) -> None:
    """Rejects invalid combinations: `journal` selects all finalized segments of the journal, and excludes other
    selections."""
    if "journal" not in given:
        if "acceptors" in given:
            raise BadSelection(
                "the option acceptors is only valid with journal: name the journal, or leave acceptors out"
            )
        return
    if "ledgers" in given:
        raise BadSelection("choose ledgers or a journal, not both")
    for name in given:
        if name.startswith(CUSTOM_PREFIX) or name == "recover":
            raise BadSelection(f"the option {name} applies to ledgers, not to a journal: leave it out")


def needed(options: Mapping[str, str], name: str) -> str:
    if not options.get(name):
        raise BadSelection(f"the option {name} is required")
    return options[name]


def truth(options: Mapping[str, str], name: str) -> bool:
    value = options.get(name.lower(), "false").lower()
    if value not in ("true", "false"):
        raise BadSelection(f"the option {name} must be true or false, not {value!r}")
    return value == "true"


def number(options: Mapping[str, str], name: str, default: int, *, least: int = 1) -> int:
    text = options.get(name, str(default))
    if not text.isascii() or not text.isdigit() or int(text) < least:
        raise BadSelection(f"the option {name} must be a number of at least {least}, not {text!r}")
    return int(text)


def names(options: Mapping[str, str], name: str, default: str) -> tuple[str, ...]:
    """Parses `a,b,c` into a tuple. Raises BadSelection for an empty name."""
    found = tuple(part.strip() for part in options.get(name, default).split(","))
    if not all(found):
        raise BadSelection(f"the option {name} must be a list of names such as a,b,c, not {options[name]!r}")
    return found


def chosen_columns(text: str | None, there: Collection[str], default: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the columns named in the option. Raises BadSelection for an unknown one."""
    if text is None:
        return default
    chosen = tuple(name.strip() for name in text.split(","))
    for name in chosen:
        if name not in there:
            raise BadSelection(f"there is no column {name!r}: the columns are {', '.join(there)}")
    _check_distinct(chosen)
    return chosen


def _check_distinct(columns: Sequence[str]) -> None:
    if not columns or len(set(columns)) < len(columns):
        raise BadSelection(
            f"name at least one column, and each only once, not {', '.join(columns) or 'none'}"
        )
