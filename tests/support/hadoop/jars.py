"""Where Hadoop's jars are, and how a class of theirs is started."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

VERSIONS = ("2.7.3", "3.4.1")
HERE = Path(__file__).parent
FETCHED = HERE.parents[2] / "build" / "hadoop"
HEAP = "-Xmx300m"
# Java 17 shuts what Hadoop's Kerberos looks into even where nobody uses it. A small heap starts quickest like this, and
# without the counters, which are files outside the test's directory.
JAVA_FLAGS = (
    HEAP,
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Djava.net.preferIPv4Stack=true",
    "-Dfile.encoding=UTF-8",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
)


def jars(version: str) -> Path:
    """The folder of one version's jars, there or not: of BOOKLEDGER_HADOOP if it is set, or of `make hadoop`."""
    return Path(os.environ.get("BOOKLEDGER_HADOOP") or FETCHED) / version / "jars"


def missing(*versions: str) -> str | None:
    """Why these versions cannot be run here and what would help; None if they can."""
    if shutil.which("java") is None:
        return "no `java` on PATH: install Java 17, and run `make hadoop`"
    for version in versions:
        if not (jars(version) / f"hadoop-hdfs-{version}.jar").exists():
            return f"no Hadoop {version} in {jars(version)}: run `make hadoop`, or set BOOKLEDGER_HADOOP"
    return None


def skip_without(*versions: str) -> pytest.MarkDecorator:
    """For a test that runs just these."""
    reason = missing(*versions)
    return pytest.mark.skipif(reason is not None, reason=reason or "")


needs_hadoop = skip_without(*VERSIONS)
each_version = pytest.mark.parametrize("version", [pytest.param(v, marks=skip_without(v)) for v in VERSIONS])


def java(
    version: str,
    main: str,
    *arguments: str,
    configuration: Path | None = None,
    tmp: Path,
    flags: Sequence[str] = (),
) -> list[str]:
    """The command that runs the class `main` with a folder of *-site.xml files; it may leave things in `tmp`.

    `flags` are Java's, and stronger than JAVA_FLAGS.
    """
    folders = [str(configuration)] if configuration else []
    class_path = ":".join([*folders, str(HERE), f"{jars(version)}/*"])
    return ["java", *JAVA_FLAGS, *flags, f"-Djava.io.tmpdir={tmp}", "-cp", class_path, main, *arguments]
