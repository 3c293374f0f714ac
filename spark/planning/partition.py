"""A batch read. The driver divides it into task partitions, which Spark sends to executors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from .options import ReadOptions

if TYPE_CHECKING:
    import pyarrow as pa

O = TypeVar("O", bound=ReadOptions)  # noqa: E741
R = TypeVar("R")


@dataclass(frozen=True)
class TaskPartition(InputPartition, Generic[R]):
    """The work of one task: ranges of entries, or ranges of a type specific to the format."""

    ranges: tuple[R, ...]


class PlannedReader(DataSourceReader, Generic[O, R]):
    """Plans on the driver and reads on executors. It is pickled for the executors, so it holds no connection."""

    def __init__(self, options: O, schema: StructType) -> None:
        self._options = options
        self._names = options.columns_of(schema)
        self._access = options.access()

    def partitions(self) -> list[TaskPartition[R]]:
        with self._access.uri() as uri:
            tasks = self._tasks(uri)
        # Without any partition, Spark would create one of its own.
        return [TaskPartition(ranges) for ranges in tasks or [()]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TaskPartition)
        return self._record_batches(partition.ranges)

    @abstractmethod
    def _tasks(self, uri: str) -> Sequence[tuple[R, ...]]:
        """Returns the ranges that each task reads."""

    @abstractmethod
    def _record_batches(self, ranges: Sequence[Any]) -> Iterator[pa.RecordBatch]:
        """Reads the ranges. Runs on an executor, and imports modules that only executors need."""
