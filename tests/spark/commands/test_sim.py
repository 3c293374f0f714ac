"""`bookledger sim`: campaigns, and seeds that end worse than by breaking a promise."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bookledger.cli.spark import sim
from spark.campaign.seeds import layer_named
from spark.campaign.simulate import Campaign, seeds_lost
from tests.spark.commands.commands import call
from tests.spark.commands.layers import BAD, BROKEN, RARE
from tests.spark.executors.test_failures import python_workers
from tests.support.command_line import succeeds


@pytest.mark.long
def test_a_campaign_of_the_simulator_runs_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    done = succeeds(
        "sim",
        "--seeds=40",
        "--seeds-a-task=10",
        "--first-seed=7",
        f"--output={tmp_path}/out",
        "--json",
        "--spark=local[2]",
        "--conf=spark.driver.memory=1g",
    )
    fields = json.loads(done)
    assert (fields["seeds"], fields["violations"], fields["first_seed"]) == (40, 0, 7)
    rows = spark.read.parquet(f"{tmp_path}/out").orderBy("seed").collect()
    assert [row.seed for row in rows] == list(range(7, 47))
    assert all(row.violation is None and row.seconds > 0 for row in rows)
    assert any(row.probes for row in rows)


@pytest.fixture
def fresh_workers(same_session: None) -> None:
    """Tasks start in new processes, which never read a ledger: seeds fork, and gRPC's threads do not survive that."""
    for worker in python_workers():
        worker.kill()


@pytest.mark.long
@pytest.mark.usefixtures("fresh_workers")
def test_seeds_that_break_a_promise_are_named_with_how_to_repeat_them(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sim.LAYERS, "cores", BROKEN)
    output = f"{tmp_path}/out"
    code, said, lines = call(
        capsys, "sim", "--first-seed=5", "--seeds=25", "--seeds-a-task=4", f"--output={output}", "--json"
    )
    assert code == 1
    fields = json.loads(said)
    assert (fields["seeds"], fields["violations"]) == (25, 2)
    assert "W3: it does not hold" in lines[0] and "seed 10:" in lines[0]
    assert lines[1].strip() == "repeat it with: make sim LAYER=cores SEED=10"
    assert "2 of 25 seeds violated a guarantee" in lines[-1]
    found = spark.read.parquet(output).where("violation is not null").collect()
    assert sorted(row.seed for row in found) == [10, 20]


SEED_SECONDS = 1.5


def test_a_seed_that_dies_or_hangs_is_an_outcome_and_loses_no_other() -> None:
    asked = f"outcomes_of({BAD!r}, range(100, 112), {SEED_SECONDS})"
    code = "from spark.campaign.seeds import *; import json; "
    code += f"print(json.dumps([[o.seed, o.violation] for o in {asked}]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    found = dict(json.loads(done.stdout))
    assert list(found) == list(range(100, 112))
    assert {seed: violation for seed, violation in found.items() if violation} == {
        101: "ended its process, with exit code 3",
        102: "ended its process, or hangs with its pipes closed",
        103: "ended its process, by SIGKILL",
        105: "gave no outcome within 1.5 seconds",
        107: "SystemExit: enough",
        109: "RuntimeError: half of a pair \\ud800",
        111: "ended its process, with exit code 3",
    }


@pytest.mark.long
@pytest.mark.usefixtures("fresh_workers")
def test_seeds_that_die_or_hang_in_a_campaign_are_named_and_the_others_kept(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sim.LAYERS, "cores", BAD)
    asked = ("--first-seed=100", "--seeds=12", "--seeds-a-task=8", f"--seed-seconds={SEED_SECONDS}")
    code, said, lines = call(capsys, "sim", *asked, f"--output={tmp_path}/out", "--json")
    assert code == 1
    fields = json.loads(said)
    assert (fields["seeds"], fields["violations"]) == (12, 7)
    assert lines[0] == "seed 101: ended its process, with exit code 3"
    assert lines[1].strip() == "repeat it with: make sim LAYER=cores SEED=101"
    assert "seed 105: gave no outcome within 1.5 seconds" in lines
    assert spark.read.parquet(f"{tmp_path}/out").where("violation is null").count() == 5


@pytest.mark.usefixtures("fresh_workers")
@pytest.mark.parametrize(("seeds", "code"), [(19, 0), (20, 1)])
def test_a_path_that_seeds_enough_never_took_fails_the_campaign(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    seeds: int,
    code: int,
) -> None:
    monkeypatch.setitem(sim.LAYERS, "cores", RARE)
    ended, _, lines = call(capsys, "sim", f"--seeds={seeds}", f"--output={tmp_path}/out")
    assert ended == code
    assert [line for line in lines if "never reached" in line] == (
        ["never reached: never taken", lines[-1]] if code else []
    )


@pytest.mark.usefixtures("same_session")
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--seeds=1000000000000",), "need more than 100000 tasks: use fewer seeds, or raise --seeds-a-task"),
        (("--first-seed=9223372036854775807",), "is not in the range"),
        (("--seeds-a-task=1000000000",), "is not in the range"),
        (("--seed-seconds=0",), "is not in the range"),
        (("--spark=",), "name a Spark master"),
    ],
)
def test_a_campaign_that_nobody_can_run_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], complaint: str
) -> None:
    code, _, lines = call(capsys, "sim", f"--output={tmp_path}/out", *arguments)
    assert code == 2 and complaint in lines[-1]


def test_the_seeds_of_a_task_that_is_lost_are_known() -> None:
    campaign = Campaign("any", 1000, 25, 10)
    assert [campaign.seeds_of(task) for task in range(campaign.tasks)] == [
        range(1000, 1010),
        range(1010, 1020),
        range(1020, 1025),
    ]
    assert seeds_lost(campaign, "Job aborted: Task 2 in stage 0.0 failed 4 times") == range(1020, 1025)
    assert seeds_lost(campaign, "No space left on device") is None


def test_what_a_layer_itself_cannot_import_is_told_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_layer_of_tests.py").write_text("import a_package_that_is_not_there")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="a_package_that_is_not_there"):
        layer_named("a_layer_of_tests:LAYER")
    with pytest.raises(ValueError, match="run this from a checkout"):
        layer_named("a_simulator.that_is.not_there:LAYER")
