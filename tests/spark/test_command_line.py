"""`bookledger replay` and `bookledger sim` as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ledgers.cli import sim
from ledgers.cli.main import main
from tests.simulation.seeds import Broken, Layer, Outcome
from tests.spark.conftest import Cluster
from tests.support.command_line import bookledger

MASTER = ("--master=local[2]", "--conf=spark.driver.memory=1g")


@pytest.fixture
def same_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands use the session that is there, and leave it running."""
    monkeypatch.setattr(SparkSession, "stop", lambda session: None)


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, list[str]]:
    """The exit code, what is printed, and the lines on stderr."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    said = capsys.readouterr()
    return int(str(ended.value.code)), said.out, said.err.splitlines()


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
    assert done.returncode == 0, done
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
@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (("--ledgers=987",), 1, "there is no ledger 987"),
        (("--ledgers=x",), 1, "'x' names no ledgers"),
        (("--ledgers=1", "--columns=size"), 1, "no column 'size'"),
        (("--journal=nowhere",), 1, "there is no journal nowhere"),
        (("--edits",), 2, "--edits goes with --journal"),
        (("--custom=x",), 2, "is not KEY=VALUE"),
    ],
)
def test_what_cannot_be_replayed_is_one_clear_line(
    cluster: Cluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    code: int,
    complaint: str,
) -> None:
    common = ("replay", f"--metadata={cluster.uri}", f"--output={tmp_path}/out")
    ended, said, lines = call(capsys, *common, *arguments)
    assert (ended, said) == (code, "")
    assert complaint in lines[-1]
    assert len(lines) == 1 or code == 2
    assert not (tmp_path / "out" / "_SUCCESS").exists()


@pytest.mark.usefixtures("same_session")
def test_an_output_that_exists_is_not_touched(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.write([b"x"])
    (tmp_path / "mine").write_text("keep me")
    code, _, lines = call(capsys, "replay", f"--metadata={cluster.uri}", f"--output={tmp_path}")
    assert code == 1 and len(lines) == 1
    assert "already exists" in lines[0] and str(tmp_path) in lines[0]
    assert (tmp_path / "mine").read_text() == "keep me"


def test_a_campaign_of_the_simulator_runs_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    done = bookledger(
        "sim",
        "--seeds=40",
        "--seeds-a-task=10",
        "--first-seed=7",
        f"--output={tmp_path}/out",
        "--json",
        "--spark=local[2]",
        "--conf=spark.driver.memory=1g",
    )
    assert done.returncode == 0, done
    fields = json.loads(done.stdout)
    assert (fields["seeds"], fields["violations"], fields["first_seed"]) == (40, 0, 7)
    rows = spark.read.parquet(f"{tmp_path}/out").orderBy("seed").collect()
    assert [row.seed for row in rows] == list(range(7, 47))
    assert all(row.violation is None and row.seconds > 0 for row in rows)
    assert any(row.probes for row in rows)


def _run(seed: int, tracing: bool) -> Outcome:
    if seed % 10 == 0:
        raise Broken("W3 does not hold")
    return Outcome(())


LAYER = Layer("broken", "Every tenth seed breaks a promise.", _run)


@pytest.mark.usefixtures("same_session")
def test_seeds_that_break_a_promise_are_named_with_how_to_repeat_them(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sim.LAYERS, "cores", f"{__name__}:LAYER")
    output = f"{tmp_path}/out"
    code, said, lines = call(
        capsys, "sim", "--first-seed=5", "--seeds=25", "--seeds-a-task=4", f"--output={output}", "--json"
    )
    assert code == 1
    fields = json.loads(said)
    assert (fields["seeds"], fields["violations"]) == (25, 2)
    assert "W3 does not hold" in lines[0] and "seed 10:" in lines[0]
    assert lines[1].strip() == "repeat it with: make sim LAYER=cores SEED=10"
    assert "2 of 25 seeds broke a promise" in lines[-1]
    found = spark.read.parquet(output).where("violation is not null").collect()
    assert sorted(row.seed for row in found) == [10, 20]
