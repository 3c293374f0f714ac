"""Journals for tests of `format("edits")`: segments of a NameNode's that are imported, or ops that are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from qjm_compat.aio import DEFAULT_ACCEPTOR, QuorumJournalManager
from qjm_compat.config import AcceptorConfig
from qjm_compat.edits import EditOp, encode_op
from qjm_compat.requests import NamespaceInfo
from qjm_compat.transfer.inspection.inspector import JournalInspector
from qjm_compat.transfer.journal_import import ImportOptions, import_directory
from tests.qjm_compat.transfer.made_directories import CLUSTER_ID, LAYOUT, NAMESPACE_ID
from tests.support.aio import run


@dataclass(frozen=True)
class Journals:
    """Journals of a cluster, brought there as their owners would."""

    uri: str

    def bring(
        self,
        journal_id: str,
        directory: Path,
        acceptors: Sequence[str] = (DEFAULT_ACCEPTOR,),
        *,
        allow_gaps: bool = False,
    ) -> None:
        options = ImportOptions(allow_gaps=allow_gaps)
        run(self._bring(journal_id, directory, acceptors, options), timeout_seconds=120)

    async def _bring(
        self, journal_id: str, directory: Path, acceptors: Sequence[str], options: ImportOptions
    ) -> None:
        named = [AcceptorConfig(name, self.uri) for name in acceptors]
        async with (
            JournalInspector(journal_id, named) as inspector,
            QuorumJournalManager(self.uri, journal_id, acceptors=named) as manager,
        ):
            await import_directory(manager, inspector, directory, options)

    def write(self, journal_id: str, ops: Sequence[EditOp]) -> None:
        """A segment of these ops in one batch, however large."""
        self.write_frames(journal_id, [encode_op(op, LAYOUT) for op in ops])

    def write_frames(self, journal_id: str, frames: Sequence[bytes]) -> None:
        """The same of frames, whatever is in them."""
        run(self._write(journal_id, frames), timeout_seconds=60)

    async def _write(self, journal_id: str, frames: Sequence[bytes]) -> None:
        async with QuorumJournalManager(self.uri, journal_id) as manager:
            await manager.format(NamespaceInfo(NAMESPACE_ID, CLUSTER_ID, layout_version=LAYOUT))
            await manager.recover_unfinalized_segments()
            async with await manager.start_log_segment(1, LAYOUT) as out:
                out.write_raw(b"".join(frames), len(frames))
                out.set_ready_to_flush()
                await out.flush()
            await manager.finalize_log_segment(1, len(frames))

    def read(
        self, spark: SparkSession, journal_id: str, *, schema: str | None = None, **options: object
    ) -> DataFrame:
        given = {name: str(value) for name, value in options.items()} | {"journal": journal_id}
        reader = spark.read.format("edits").option("metadata", self.uri).options(**given)
        return (reader.schema(schema) if schema else reader).load()
