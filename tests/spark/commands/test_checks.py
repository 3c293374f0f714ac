"""What is wrong with a replay's options is said at once: no JVM starts for it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.commands.commands import call, ended, started
from tests.spark.conftest import Cluster
from tests.support.etcd import free_port

SECONDS_MAX = 20.0
"""Of the few that it takes; a machine may be busy."""


@pytest.fixture(autouse=True)
def java(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Stands where Spark takes its Java from; nobody may have run it when the test ends."""
    home = tmp_path_factory.mktemp("java-home")
    was_run = home / "was-run"
    program = home / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch {was_run}\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "BOOKLEDGER_METADATA"):
        monkeypatch.delenv(name, raising=False)
    yield was_run
    assert not was_run.exists() or was_run.with_suffix(".expected").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (("--ledgers=x",), 2, "'x' is not a ledger or a range of ledgers: write 7, 20-30"),
        (("--ledgers=9-7",), 2, "ends before it begins"),
        (("--ledgers=987",), 1, "there is no ledger 987"),
        (("--ledgers=980-989",), 1, "there is no ledger 980-989: nothing would be read"),
        (("--custom=owner=nobody",), 1, "there is no ledger with custom metadata owner=nobody"),
        (("--columns=size",), 2, "there is no column 'size'"),
        (("--columns=payload,payload",), 2, "column"),
        (("--custom=owner",), 2, "is not KEY=VALUE"),
        (("--journal=nowhere",), 1, "there is no journal nowhere"),
        (("--journal=nowhere", "--edits", "--acceptors=a,"), 2, "acceptors must be a list of names"),
        (("--edits",), 2, "--edits is only valid with --journal"),
        (("--acceptors=a",), 2, "--acceptors is only valid with --journal"),
        (("--journal=ns1", "--ledgers=1"), 2, "--ledgers and --journal read two different things"),
        (("--log=orders", "--journal=ns1"), 2, "--log and --journal read two different things"),
        (("--log=orders", "--set=sales"), 2, "--set and --log read two different things"),
        (("--set=sales", "--recover"), 2, "--recover and --set read two different things"),
        (("--set=sales", "--first=1"), 2, "--first is only valid with --log"),
        (("--since=2026-11-29",), 2, "--since is only valid with --log or --set"),
        (("--log=orders", "--first=1", "--since=2026-11-29"), 2, "choose startingPosition or startingTime"),
        (
            ("--log=orders", "--columns=entry_id"),
            2,
            "there is no column 'entry_id': the columns are log, position",
        ),
        (("--log=orders",), 1, "there is no log 'orders'"),
        (("--set=sales",), 1, "there is no set of logs 'sales'"),
        (("--journal=ns1", "--custom=a=b"), 2, "--custom and --journal read two different things"),
        (("--journal=ns1", "--recover"), 2, "--recover and --journal read two different things"),
        (
            ("--journal=ns1", "--edits", "--columns=payload"),
            2,
            "--columns and --journal read two different things",
        ),
        (("--journal=ns1", "--columns=payload"), 2, "--columns and --journal read two different things"),
        (("--master=local[0]",), 2, "'local[0]' is not a Spark master"),
        (("--master=foo",), 2, "a master is local[*], spark://HOST:PORT, yarn or k8s://"),
        (("--master=local[x]",), 2, "'local[x]' is not a Spark master"),
        (("--master=",), 2, "name a Spark master"),
        (("--conf=executor.memory=1g",), 2, "Spark's settings begin with spark."),
        (("--conf=spark.executor.memory",), 2, "is not KEY=VALUE"),
        (("--partition-bytes=0",), 2, "not in the range"),
        (("--password-file=/no/such/file",), 2, "does not exist"),
        (("--output=",), 2, "name a new directory"),
        (("--output=nofs://host/out",), 2, "no file system is called nofs"),
    ],
)
def test_an_option_that_is_wrong_is_said_without_a_jvm(
    cluster: Cluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    code: int,
    complaint: str,
) -> None:
    began = time.monotonic()
    common = ("replay", f"--metadata={cluster.uri}", f"--output={tmp_path}/out")
    ended_with, said, lines = call(capsys, *common, *arguments)
    assert (ended_with, said) == (code, ""), lines
    assert complaint in lines[-1] and (len(lines) == 1 or code == 2)
    assert time.monotonic() - began < SECONDS_MAX
    assert not list(tmp_path.iterdir())


def test_entries_that_no_ledger_has_are_said(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger_id = cluster.write([b"x"] * 3)
    common = ("replay", f"--metadata={cluster.uri}", f"--output={tmp_path}/out")
    code, _, lines = call(capsys, *common, f"--ledgers={ledger_id}:3-9")
    assert (code, len(lines)) == (1, 1)
    assert f"no ledger has any of the entries {ledger_id}:3-9: nothing would be read" in lines[0]


def test_an_open_ledger_is_said_and_left_as_it_is_unless_it_may_be_recovered(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], java: Path
) -> None:
    with cluster.writer() as writer:
        writer.append(b"still open")
        common = ("replay", f"--metadata={cluster.uri}", f"--output={tmp_path}/out")
        code, _, lines = call(capsys, *common, f"--ledgers={writer.ledger_id}")
        assert (code, len(lines)) == (1, 1) and f"ledger {writer.ledger_id} is open" in lines[0]
        java.with_suffix(".expected").touch()
        _, _, lines = call(capsys, *common, f"--ledgers={writer.ledger_id}", "--recover")
        assert "Java" in lines[0] and java.exists(), "nothing else was wrong with it"
        writer.append(b"nobody has fenced it")


def test_an_output_that_is_there_or_cannot_be_made_is_said(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("no directory")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "kept").write_text("keep me")
    (tmp_path / "locked").mkdir(mode=0o500)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for output, complaint in (
        (f"{tmp_path}/file", "already exists"),
        (f"{tmp_path}/mine", f"{tmp_path}/mine already exists: choose another --output, or remove it"),
        (f"file://{tmp_path}/mine", "already exists"),
        (f"file:{tmp_path}/mine", "already exists"),
        (f"{tmp_path}/dangling", "already exists"),
        (f"{tmp_path}/file/out", "is not a directory: choose a writable place"),
        *((f"{tmp_path}/locked/out", f"nothing can be written to {tmp_path}/locked: choose"),)[
            os.geteuid() == 0 :
        ],
    ):
        code, _, lines = call(capsys, "replay", f"--metadata={cluster.uri}", f"--output={output}")
        assert (code, len(lines)) == (1, 1) and complaint in lines[0], lines
    assert (tmp_path / "mine" / "kept").read_text() == "keep me"


def test_metadata_that_is_not_there_or_has_no_cluster_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = f"--output={tmp_path}/out"
    for uri in (f"sqlite://{tmp_path}/none.db", f"etcd://127.0.0.1:{free_port()}/x?timeout=1"):
        for of in ((), ("--journal=ns1",), ("--journal=ns1", "--edits")):
            began = time.monotonic()
            code, said, lines = call(capsys, "replay", f"--metadata={uri}", out, *of)
            assert (code, said, len(lines)) == (1, "", 1), lines
            assert time.monotonic() - began < SECONDS_MAX
    code, said, lines = call(capsys, "replay", "--metadata=nosuch://x", out)
    assert (code, said) == (2, "")
    assert "the scheme 'nosuch' is not known" in lines[-1]


def test_a_process_of_its_own_ends_within_seconds(cluster: Cluster, tmp_path: Path) -> None:
    code, said, lines = ended(
        started("replay", f"--metadata={cluster.uri}", f"--output={tmp_path}/out", "--ledgers=987"),
        SECONDS_MAX,
    )
    assert (code, said, lines) == (1, "", ["bookledger: there is no ledger 987"])
