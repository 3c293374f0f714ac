"""`format("records")`: records of one length in local files, through Spark's Python API as ledgers are: a baseline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow as pa

RECORD_BYTES = 1000
BATCH_RECORDS = 2000
PARTITION_RECORDS = 66_000


class RecordsDataSource(DataSource):
    """Takes the option `path`, a directory."""

    @classmethod
    def name(cls) -> str:
        return "records"

    def schema(self) -> str:
        return "ledger_id bigint, entry_id bigint, payload binary"

    def reader(self, schema: StructType) -> RecordsReader:
        return RecordsReader(self.options["path"])


@dataclass(frozen=True)
class Part(InputPartition):
    """Records `first` … `last` of a file."""

    path: str
    first: int
    last: int


class RecordsReader(DataSourceReader):
    """Arrow over the bytes as they are read, no digest, no copy."""

    def __init__(self, directory: str) -> None:
        self._directory = directory

    def partitions(self) -> list[Part]:
        return [
            Part(str(path), first, min(first + PARTITION_RECORDS, path.stat().st_size // RECORD_BYTES) - 1)
            for path in sorted(Path(self._directory).iterdir())
            for first in range(0, path.stat().st_size // RECORD_BYTES, PARTITION_RECORDS)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Part)
        with Path(partition.path).open("rb") as file:
            file.seek(partition.first * RECORD_BYTES)
            for first in range(partition.first, partition.last + 1, BATCH_RECORDS):
                count = min(BATCH_RECORDS, partition.last + 1 - first)
                yield _batch(first, count, file.read(count * RECORD_BYTES))


def _batch(first: int, count: int, content: bytes) -> pa.RecordBatch:
    import numpy as np
    import pyarrow as pa

    offsets: Any = np.arange(count + 1, dtype="<i4") * RECORD_BYTES
    payload = pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(offsets.astype("<i4")), pa.py_buffer(content)]
    )
    ids = pa.array(np.arange(first, first + count, dtype="<i8"))
    return pa.RecordBatch.from_arrays(
        [pa.array(np.zeros(count, dtype="<i8")), ids, payload], ["ledger_id", "entry_id", "payload"]
    )
