"""`format("edits")` on a real Spark: rows against the codec's own decoding of the same files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from qjm_compat.aio import DEFAULT_ACCEPTOR, QuorumJournalManager
from qjm_compat.config import AcceptorConfig
from qjm_compat.edits import EditOp, encode_op, iter_segment
from qjm_compat.edits.access import Permission
from qjm_compat.edits.ops import files, namespace
from qjm_compat.requests import NamespaceInfo
from qjm_compat.transfer.importing import ImportOptions, import_directory
from qjm_compat.transfer.survey import Survey
from tests.qjm_compat.edits.real_segments import FOLDER, NAMES, needs_segments, segment
from tests.qjm_compat.transfer.made_directories import (
    CLUSTER_ID,
    LAYOUT,
    NAMESPACE_ID,
    finalized,
    version,
)
from tests.spark.conftest import Cluster
from tests.support.aio import run

WHO_DELETED_WHAT = Path(__file__).parents[2] / "spark" / "who_deleted_what.sql"


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
            Survey(journal_id, named) as survey,
            QuorumJournalManager(self.uri, journal_id, acceptors=named) as manager,
        ):
            await import_directory(manager, survey, directory, options)

    def write(self, journal_id: str, ops: Sequence[EditOp]) -> None:
        """A segment of these ops in one batch, however large."""
        run(self._write(journal_id, ops), timeout_seconds=60)

    async def _write(self, journal_id: str, ops: Sequence[EditOp]) -> None:
        async with QuorumJournalManager(self.uri, journal_id) as manager:
            await manager.format(NamespaceInfo(NAMESPACE_ID, CLUSTER_ID, layout_version=LAYOUT))
            await manager.recover_unfinalized_segments()
            async with await manager.start_log_segment(1, LAYOUT) as out:
                out.write_raw(b"".join([encode_op(op, LAYOUT) for op in ops]), len(ops))
                out.set_ready_to_flush()
                await out.flush()
            await manager.finalize_log_segment(1, len(ops))

    def read(self, spark: SparkSession, journal_id: str, **options: object) -> DataFrame:
        given = {name: str(value) for name, value in options.items()} | {"journal": journal_id}
        return spark.read.format("edits").option("metadata", self.uri).options(**given).load()


@pytest.fixture(scope="module")
def journals(cluster: Cluster) -> Journals:
    return Journals(cluster.uri)


@needs_segments
def test_a_real_namespaces_history_is_a_table(
    journals: Journals, spark: SparkSession, tmp_path: Path
) -> None:
    version(tmp_path)
    for name in NAMES[1:3]:
        (tmp_path / name).symlink_to(FOLDER / name)
    journals.bring("real", tmp_path)
    ops = [op for name in NAMES[1:3] for op in iter_segment(segment(name))]
    frame = journals.read(spark, "real", partition_bytes=200_000)
    assert frame.rdd.getNumPartitions() > 3
    rows = frame.select("txid", "op", "path", "body", "rpc_call_id").orderBy("txid").collect()
    assert [(row.txid, row.op) for row in rows] == [(op.txid, op.name) for op in ops]
    assert [bytes(row.body) for row in rows] == [encode_op(op, -63) for op in ops]
    deleted = frame.where("op = 'OP_DELETE'")
    assert [row.path for row in deleted.orderBy("txid").collect()] == [
        op.path for op in ops if isinstance(op, namespace.Delete)
    ]
    frame.createOrReplaceTempView("edits")
    answer = spark.sql(WHO_DELETED_WHAT.read_text())
    assert answer.count() == 500
    assert answer.where("created_by = 'root' and path like '%part-00000'").count() == 500


@needs_segments
def test_every_kind_of_op_that_a_namenode_wrote_is_typed(
    journals: Journals, spark: SparkSession, tmp_path: Path
) -> None:
    version(tmp_path)
    (tmp_path / "edits_0000000000000000001-0000000000000000078").symlink_to(FOLDER / NAMES[0])
    journals.bring("all-ops", tmp_path)
    frame = journals.read(spark, "all-ops")
    ops = list(iter_segment(segment(NAMES[0])))
    rows = {row.txid: row for row in frame.collect()}
    assert set(rows) == set(range(1, 79))
    for op in ops:
        row = rows[op.txid]
        assert row.op == op.name and row.segment == 1 and row.layout_version == -63
        if isinstance(op, files.Add):
            assert (row.username, row.mode) == (op.permission.user, op.permission.mode)
            assert row.rpc_client_id == op.rpc_client_id.hex() and row.inode_id == op.inode_id
    frame.createOrReplaceTempView("edits")
    (answer,) = spark.sql(WHO_DELETED_WHAT.read_text()).collect()
    assert (answer.path, answer.client_also_created_files_as) == ("/file_moved", "andrew")


def test_edits_are_chosen_by_their_txids(journals: Journals, spark: SparkSession, tmp_path: Path) -> None:
    version(tmp_path)
    for first in (1, 11, 21):
        finalized(tmp_path, first, first + 9)
    journals.bring("ranged", tmp_path, ("a", "b", "c"))
    found = journals.read(spark, "ranged", acceptors="a,b,c", from_txid=5, to_txid=23, partition_bytes=1)
    assert [row.txid for row in found.select("txid").orderBy("txid").collect()] == list(range(5, 24))
    assert found.rdd.getNumPartitions() >= 3
    with pytest.raises(PySparkException, match="there is no journal ranged at acceptor main"):
        journals.read(spark, "ranged").count()
    assert journals.read(spark, "ranged", acceptors="a,b,c", from_txid=100).collect() == []


def test_a_batch_over_several_entries_is_read_once_however_tasks_are_cut(
    journals: Journals, spark: SparkSession
) -> None:
    paths = ["/" + "p" * 4000 + str(n) for n in range(800)]
    ops = [namespace.Delete(txid=n, path=path, timestamp_ms=n) for n, path in enumerate(paths, 1)]
    journals.write("large", ops)
    frame = journals.read(spark, "large", partition_bytes=1_050_000)
    assert frame.rdd.getNumPartitions() >= 3, "the batch is cut into entries, and these into tasks"
    rows = frame.select("txid", "path").orderBy("txid").collect()
    assert [(row.txid, row.path) for row in rows] == list(enumerate(paths, 1))


def test_who_deleted_what_tells_what_the_log_tells_and_no_more(
    journals: Journals, spark: SparkSession
) -> None:
    ada, unknown = b"a" * 16, b"u" * 16
    ops: list[EditOp] = [
        namespace.Symlink(
            txid=1,
            inode_id=1,
            path="/made-by-ada",
            target="/t",
            mtime_ms=0,
            atime_ms=0,
            permission=Permission("ada", "staff", 0o777),
            rpc_client_id=ada,
            rpc_call_id=1,
        ),
        namespace.Delete(txid=2, path="/others", timestamp_ms=1000, rpc_client_id=ada, rpc_call_id=2),
        namespace.Delete(
            txid=3, path="/made-by-ada", timestamp_ms=2000, rpc_client_id=unknown, rpc_call_id=3
        ),
        namespace.Delete(txid=4, path="/by-nobody", timestamp_ms=3000),
    ]
    journals.write("who", ops)
    journals.read(spark, "who").createOrReplaceTempView("edits")
    rows = spark.sql(WHO_DELETED_WHAT.read_text()).collect()
    assert [(row.txid, row.path, row.client_also_created_files_as, row.created_by) for row in rows] == [
        (2, "/others", "ada", None),
        (3, "/made-by-ada", None, "ada"),
        (4, "/by-nobody", None, None),
    ]


def test_a_gap_between_segments_is_an_error_not_a_shorter_table(
    journals: Journals, spark: SparkSession, tmp_path: Path
) -> None:
    version(tmp_path)
    finalized(tmp_path, 1, 10)
    finalized(tmp_path, 15, 20)
    journals.bring("gaps", tmp_path, allow_gaps=True)
    with pytest.raises(PySparkException, match="no finalized segment from txid 11 to 14"):
        journals.read(spark, "gaps").count()
    assert journals.read(spark, "gaps", from_txid=12).select(f.count("*")).collect() == [(6,)]
