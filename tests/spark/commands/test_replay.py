"""`bookledger replay` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.commands.commands import call
from tests.spark.conftest import Cluster
from tests.support.command_line import bookledger

MASTER = ("--master=local[2]", "--conf=spark.driver.memory=1g")


@pytest.mark.long
def test_ledgers_are_replayed_by_a_process_of_its_own(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    ledger_id = cluster.write([b"%d" % n for n in range(1000)])
    done = bookledger(
        "replay",
        f"--metadata={cluster.uri}",
        f"--ledgers={ledger_id}",
        f"--output={tmp_path}/out",
        "--json",
        *MASTER,
    )
    assert (done.returncode, done.stderr) == (0, b""), done  # not a word of Spark's own
    fields = json.loads(done.stdout)
    assert (fields["rows"], fields["bytes"]) == (1000, sum(len(b"%d" % n) for n in range(1000)))
    rows = spark.read.parquet(f"{tmp_path}/out").orderBy("entry_id").collect()
    assert [(row.ledger_id, bytes(row.payload)) for row in rows] == [
        (ledger_id, b"%d" % n) for n in range(1000)
    ]


@pytest.mark.usefixtures("same_session")
def test_columns_without_the_payload_are_replayed_too(
    cluster: Cluster, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger_id = cluster.write([b"abc"] * 10, custom_metadata={"Owner": b"ada"})
    meta = (f"--metadata={cluster.uri}", "--custom=Owner=ada", "--json")
    for columns, size in (("entry_id", 0), ("entry_id,bytes", 30), ("payload", 30)):
        output = str(tmp_path / columns)
        code, said, _ = call(capsys, "replay", *meta, f"--columns={columns}", f"--output={output}")
        fields = json.loads(said)
        assert (code, fields["rows"], fields["bytes"]) == (0, 10, size)
        assert spark.read.parquet(output).columns == columns.split(",")
    assert ledger_id > 0


@pytest.mark.usefixtures("same_session")
def test_a_replay_that_failed_can_be_tried_again_as_it_was(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with cluster.writer() as writer:
        writer.append(b"still open")
        again = (
            "replay",
            f"--metadata={cluster.uri}",
            f"--ledgers={writer.ledger_id}",
            f"--output=file://{tmp_path}/a%20place",
        )
        code, _, lines = call(capsys, *again)
        assert (code, len(lines)) == (1, 1) and "is open" in lines[0]
        assert not list(tmp_path.iterdir())
    assert call(capsys, *again)[0] == 0
    assert (tmp_path / "a%20place" / "_SUCCESS").exists()


@pytest.mark.usefixtures("same_session")
def test_a_log_is_replayed_beside_its_writer_and_is_no_matter_for_a_replay_of_all_ledgers(
    cluster: Cluster, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    meta = f"--metadata={cluster.uri}"
    cluster.write([b"of no log"])
    with cluster.client.log("orders", create=True).writer() as writer:
        for n in range(20):
            writer.append(b"%d" % n)
        cluster.until_told("orders", 20)
        found = call(
            capsys,
            "replay",
            meta,
            "--log=orders",
            "--first=5",
            "--last=9",
            f"--output={tmp_path}/5",
            "--json",
        )
        assert (found[0], json.loads(found[1])["rows"], found[2]) == (0, 5, [])
        rows = spark.read.parquet(f"{tmp_path}/5").orderBy("position").collect()
        assert [(row.position, bytes(row.payload)) for row in rows] == [(n, b"%d" % n) for n in range(5, 10)]
        code, said, lines = call(
            capsys, "replay", meta, f"--output={tmp_path}/all", "--columns=payload", "--json"
        )
        assert code == 0 and json.loads(said)["rows"] == spark.read.parquet(f"{tmp_path}/all").count()
        assert lines == ['omitted: 1 ledgers of logs (read them with format("log"))']
        assert b"0" not in [bytes(row.payload) for row in spark.read.parquet(f"{tmp_path}/all").collect()]
    code, _, lines = call(capsys, "replay", meta, "--log=orders", "--first=20", f"--output={tmp_path}/none")
    assert (code, lines) == (
        1,
        ["bookledger: log orders has no selected record: nothing would be read"],
    )
