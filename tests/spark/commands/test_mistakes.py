"""Everyday mistakes of whoever runs a command on Spark: each is one line that says what to do."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.spark.commands.commands import call, ended, started
from tests.spark.conftest import Cluster

INSTALL = "install a JDK 17 or later, and put its java on PATH or set JAVA_HOME"


def replay(cluster: Cluster) -> tuple[str, ...]:
    """One with nothing wrong in it."""
    return ("replay", f"--metadata={cluster.uri}", f"--ledgers={cluster.write([b'x'])}")


def test_a_java_home_without_java_is_named(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert call(capsys, *replay(cluster), f"--output={tmp_path}/out") == (
        1,
        "",
        [f"bookledger: JAVA_HOME is {tmp_path}, which has no bin/java: {INSTALL}"],
    )


def test_a_machine_without_java_is_told_to_get_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    code, _, lines = call(capsys, "sim", f"--output={tmp_path}/out")
    assert (code, lines) == (1, [f"bookledger: Spark needs Java, which was not found: {INSTALL}"])


@pytest.mark.parametrize(
    ("says", "complaint"),
    [
        ("echo 'openjdk version \"1.8.0_392\"' >&2", "Spark needs Java 17, but {} is 8: "),
        ("echo 'openjdk version \"11.0.21\" 2023-10-17' >&2", "Spark needs Java 17, but {} is 11: "),
        ("echo broken >&2", "Spark needs Java, but {} does not print its version (broken): "),
    ],
)
def test_a_java_that_is_too_old_is_named(
    cluster: Cluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    says: str,
    complaint: str,
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\n{says}\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    code, _, lines = call(capsys, *replay(cluster), f"--output={tmp_path}/out")
    assert (code, lines) == (1, [f"bookledger: {complaint.format(java)}{INSTALL}"])


def test_packages_that_are_missing_are_named_with_how_to_install_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    code, _, (line,) = call(capsys, "replay", "--metadata=sqlite:///nowhere", f"--output={tmp_path}/out")
    assert code == 1 and "pyarrow, not installed here" in line
    assert "pip install 'bookledger[spark]', or pip install '.[spark]' in a checkout" in line


@pytest.mark.parametrize(
    ("arguments", "environment", "complaint"),
    [
        (("--conf=spark.driver.memory=abc",), {}, "Invalid maximum heap size: -Xmxabc"),
        pytest.param(
            ("--conf=spark.task.cpus=two",),
            {},
            "The value 'two' in the config \"spark.task.cpus\" is invalid",
            marks=pytest.mark.long,
        ),
        pytest.param(
            (),
            {"PYSPARK_PYTHON": "/nowhere/python"},
            "set PYSPARK_PYTHON to a Python that",
            marks=pytest.mark.long,
        ),
    ],
)
def test_spark_that_cannot_start_so_is_one_line(
    cluster: Cluster,
    tmp_path: Path,
    arguments: tuple[str, ...],
    environment: Mapping[str, str],
    complaint: str,
) -> None:
    process = started(
        *replay(cluster), f"--output={tmp_path}/out", "--master=local[1]", *arguments, environment=environment
    )
    code, said, lines = ended(process)
    assert (code, said, len(lines)) == (1, "", 1), lines
    assert complaint in lines[0]
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("same_session")
@pytest.mark.parametrize(
    ("output", "complaint"),
    [
        ("s3a://bucket/out", "give Spark that file system's jar, as with --conf spark.jars.packages="),
        ("gs://place/out", "give Spark that file system's jar"),
    ],
)
def test_an_output_that_cannot_be_written_is_one_line(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], output: str, complaint: str
) -> None:
    code, _, lines = call(capsys, *replay(cluster), f"--output={output}")
    assert (code, len(lines)) == (1, 1), lines
    assert complaint in lines[0]


@pytest.mark.long
def test_spark_speaks_when_more_is_asked_for(cluster: Cluster, tmp_path: Path) -> None:
    _, _, lines = ended(started("-v", *replay(cluster), f"--output={tmp_path}/out", "--master=local[1]"))
    assert any("Using Spark's default log4j profile" in line for line in lines)
