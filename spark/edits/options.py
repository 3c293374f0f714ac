"""The options of `format("edits")`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.types import StructType

from ..planning.journal_segments import DEFAULT_ACCEPTOR, TXID_MAX
from ..planning.options import COMMON, ReadOptions, checked, names, needed, number, typed_columns
from .fields import COLUMNS

OF_EDITS = (*COMMON, "journal", "acceptors", "from_txid", "to_txid")


@dataclass(frozen=True, kw_only=True)
class EditsOptions(ReadOptions):
    """Options of `format("edits")`.

    `metadata`: the cluster's URI. `journal`: the journal's id. `acceptors`: the names of the journal's acceptors, if it
    has several, as `a,b,c`. `from_txid`, `to_txid`: the edits to read (default: all). A `from_txid` that was purged, or
    that is beyond the next transaction to be written, is an error that states the available range; a `to_txid` beyond
    the end is allowed. `password_file`, `key_file`, `partition_bytes`, `partitions_min`: as for `format("ledger")`.
    Only finalized segments are read.
    """

    journal: str
    acceptors: tuple[str, ...]
    from_txid: int | None
    to_txid: int

    @classmethod
    def of(cls, options: Mapping[str, str]) -> EditsOptions:
        """Parses the options. Raises BadSelection, which names the invalid option."""
        given = checked(options, OF_EDITS, prefix=None)
        return cls(
            **cls.common(given),
            journal=needed(given, "journal"),
            acceptors=names(given, "acceptors", DEFAULT_ACCEPTOR),
            from_txid=number(given, "from_txid", 1) if "from_txid" in given else None,
            to_txid=number(given, "to_txid", TXID_MAX),
        )

    def columns_of(self, schema: StructType) -> tuple[str, ...]:
        return typed_columns(schema, {name: column.ddl for name, column in COLUMNS.items()})
