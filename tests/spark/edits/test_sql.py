"""`who_deleted_what.sql`: what it answers of made-up histories, and of real ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from qjm_compat.edits import EditOp
from qjm_compat.edits.fields.permissions import Permission
from qjm_compat.edits.ops import namespace
from tests.qjm_compat.edits.real_segments import FOLDER, NAMES, needs_segments
from tests.qjm_compat.transfer.made_directories import version
from tests.spark.conftest import Cluster
from tests.spark.made_journals import Journals

WHO_DELETED_WHAT = (Path(__file__).parents[3] / "spark" / "who_deleted_what.sql").read_text()
NEEDED = (
    "txid bigint, timestamp timestamp, op string, path string, target string, username string, "
    "rpc_client_id string"
)
"""The columns that it names."""

ADA, BOB, EVE = "ada", "bob", "eve"

Event = tuple[str, str, str, str]
"""Op, path, target, user; of the last two what there is."""


@pytest.fixture(scope="module")
def journals(cluster: Cluster) -> Journals:
    return Journals(cluster.uri)


def made(path: str, user: str) -> Event:
    return ("OP_ADD", path, "", user)


def renamed(path: str, target: str, op: str = "OP_RENAME_OLD") -> Event:
    return (op, path, target, "")


def deleted(path: str) -> Event:
    return ("OP_DELETE", path, "", "")


def creators(spark: SparkSession, *histories: list[Event]) -> list[list[str | None]]:
    """Who created what was deleted, deletion for deletion, in histories that have nothing to do with each other."""
    events = [
        (op, f"/{number}{path}", f"/{number}{target}" if target else None, user or None)
        for number, history in enumerate(histories)
        for op, path, target, user in history
    ]
    rows = [f"({txid}L, {', '.join(map(quoted, event))})" for txid, event in enumerate(events)]
    made_up = f"VALUES {', '.join(rows)} AS e (txid, op, path, target, username)"
    found = answer(
        spark.sql(f"SELECT *, timestamp'1970-01-01' AS timestamp, 'c' AS rpc_client_id FROM {made_up}")
    )
    return [
        [row.created_by for row in found if row.path.startswith(f"/{number}/")]
        for number, _ in enumerate(histories)
    ]


def quoted(name: str | None) -> str:
    return f"'{name}'" if name else "CAST(NULL AS string)"


def answer(edits: DataFrame) -> list[Row]:
    edits.cache().createOrReplaceTempView("edits")
    try:
        return edits.sparkSession.sql(WHO_DELETED_WHAT).collect()
    finally:
        edits.unpersist()


def test_a_file_is_of_whoever_made_it_last_before_it_was_deleted(spark: SparkSession) -> None:
    again = [made("/a", ADA), deleted("/a"), made("/a", BOB), deleted("/a"), made("/a", EVE)]
    overwritten = [made("/a", ADA), made("/a", BOB), deleted("/a"), made("/a", EVE)]
    assert creators(spark, again, overwritten) == [[ADA, BOB], [BOB]]


def test_whoever_made_a_file_that_is_gone_did_not_make_the_next_of_its_name(spark: SparkSession) -> None:
    """That one came there with a directory above it: nobody is named."""
    after_deletion = [made("/a", ADA), deleted("/a"), deleted("/a")]
    after_renaming = [made("/a", ADA), renamed("/a", "/b"), deleted("/a")]
    assert creators(spark, after_deletion, after_renaming) == [[ADA, None], [None]]


@pytest.mark.parametrize("op", ["OP_RENAME_OLD", "OP_RENAME"])
def test_a_file_that_was_renamed_is_of_whoever_made_it(spark: SparkSession, op: str) -> None:
    in_its_place = [made("/a", ADA), deleted("/a"), made("/b", BOB), renamed("/b", "/a", op), deleted("/a")]
    over_it = [made("/a", ADA), made("/b", BOB), renamed("/b", "/a", op), deleted("/a")]
    name_used_again = [
        made("/b", BOB),
        renamed("/b", "/a", op),
        made("/b", EVE),
        deleted("/a"),
        deleted("/b"),
    ]
    assert creators(spark, in_its_place, over_it, name_used_again) == [[ADA, BOB], [BOB], [BOB, EVE]]


def test_a_file_whose_history_goes_further_back_is_of_nobody(spark: SparkSession) -> None:
    twice = [made("/a", ADA), renamed("/a", "/b"), renamed("/b", "/c"), deleted("/c")]
    before_the_log = [renamed("/a", "/b"), deleted("/b")]
    gone_before = [made("/a", ADA), deleted("/a"), renamed("/a", "/b"), deleted("/b")]
    assert creators(spark, twice, before_the_log, gone_before) == [[None], [None], [ADA, None]]


def test_every_deletion_is_one_row_however_often_its_name_was_used(spark: SparkSession) -> None:
    history = [made("/a", ADA), renamed("/a", "/b"), made("/a", BOB), renamed("/a", "/b"), deleted("/b")]
    assert creators(spark, history * 3) == [[BOB] * 3]


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
    rows = answer(journals.read(spark, "who", schema=NEEDED))
    assert [(row.txid, row.path, row.client_also_created_files_as, row.created_by) for row in rows] == [
        (2, "/others", "ada", None),
        (3, "/made-by-ada", None, "ada"),
        (4, "/by-nobody", None, None),
    ]


@pytest.mark.long
@needs_segments
def test_real_history_tells_who_created_what_was_deleted(
    journals: Journals, spark: SparkSession, tmp_path: Path
) -> None:
    version(tmp_path)
    for name in NAMES[1:3]:
        (tmp_path / name).symlink_to(FOLDER / name)
    journals.bring("real-history", tmp_path)
    rows = answer(journals.read(spark, "real-history", schema=NEEDED))
    assert len(rows) == 500
    assert {(row.created_by, row.path.rpartition("/")[2]) for row in rows} == {("root", "part-00000")}


@needs_segments
def test_a_real_file_that_was_renamed_and_deleted_is_of_whoever_created_it(
    journals: Journals, spark: SparkSession, tmp_path: Path
) -> None:
    version(tmp_path)
    (tmp_path / "edits_0000000000000000001-0000000000000000078").symlink_to(FOLDER / NAMES[0])
    journals.bring("real-renaming", tmp_path)
    (row,) = answer(journals.read(spark, "real-renaming", schema=NEEDED))
    assert (row.path, row.client_also_created_files_as, row.created_by) == ("/file_moved", "andrew", "andrew")
