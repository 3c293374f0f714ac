"""One of Hadoop's test classes, run in a Java process of its own with our stand-ins first on its class path."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.hadoop.jars import HERE as LOGGING
from tests.support.hadoop.jars import JAVA_FLAGS, jars

VERSION = "3.4.1-tests"
"""Hadoop 3.4.1 with its tests, as `make interop` fetches it."""

ROOT = Path(__file__).parents[2]
SOURCES = Path(__file__).parent / "java"
CLASS_SECONDS_MAX = 1800.0
"""A class that is not through by then has failed."""

HEAP = "-Xmx1g"
_OPENED = ("java.base/java.util", "java.base/java.util.concurrent", "java.base/java.io", "java.base/java.net")


@dataclass(frozen=True, slots=True)
class Result:
    """How one test went: "passed", "failed" or "skipped"; `why` is a stack trace, or what the test said."""

    test: str
    how: str
    milliseconds: int
    why: str


def missing() -> str | None:
    """Why the classes cannot be run here, and what would help; None if they can."""
    for tool in ("java", "javac"):
        if shutil.which(tool) is None:
            return f"no `{tool}` on PATH: install a JDK 17, and run `make interop`"
    if not (jars(VERSION) / "hadoop-hdfs-3.4.1-tests.jar").exists():
        return f"no tests of Hadoop's in {jars(VERSION)}: run `make interop`, which fetches them with Maven"
    return None


def compiled(directory: Path, sources: Path = SOURCES, version: str = VERSION) -> Path:
    """What stands in a folder of sources, the stand-ins by default, as classes in this folder."""
    files = [str(path) for path in sorted(sources.rglob("*.java"))]
    command = ["javac", "-nowarn", "-d", str(directory), "-cp", f"{jars(version)}/*", *files]
    subprocess.run(command, check=True)
    return directory


def run_class(classes: Path, name: str, methods: Sequence[str], directory: Path) -> list[Result]:
    """Runs the class, or some methods of it, in the folder, where `log` says what happened.

    What does not come to its end counts as failed.
    """
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    output, log = directory / "results", directory / "log"
    with output.open("wb") as results, log.open("wb") as said:
        process = subprocess.Popen(
            _command(classes, name, methods, directory), stdout=results, stderr=said, cwd=directory
        )
        try:
            code: int | str = process.wait(CLASS_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            code = f"nothing within {CLASS_SECONDS_MAX:g} s"
        finally:
            process.kill()
            process.wait()
    found, begun = _results(output.read_text(errors="replace"))
    done = {result.test for result in found}
    unfinished = [
        Result(test, "failed", 0, f"it did not come to its end; see {log}")
        for test in begun
        if test not in done
    ]
    if code != 0 and not unfinished:
        unfinished = [Result(name, "failed", 0, f"the process ended with {code}; see {log}")]
    return found + unfinished


def _command(classes: Path, name: str, methods: Sequence[str], directory: Path) -> list[str]:
    class_path = f"{classes}:{LOGGING}:{jars(VERSION)}/*"
    properties = {
        "interop.python": sys.executable,
        "interop.root": str(ROOT),
        "java.io.tmpdir": str(directory),
        "test.build.data": str(directory / "data"),
        "test.build.dir": str(directory / "dir"),
    }
    return [
        "java",
        *JAVA_FLAGS,
        HEAP,
        *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
        *(f"-D{key}={value}" for key, value in properties.items()),
        # Assertions are part of what Hadoop's tests test.
        "-enableassertions",
        "-cp",
        class_path,
        "interop.RunClass",
        name,
        *methods,
    ]


def _results(output: str) -> tuple[list[Result], list[str]]:
    """What the tests came to, and the names of all that began."""
    results: list[Result] = []
    begun: list[str] = []
    for line in output.splitlines():
        match line.split("\t"):
            case ["begins", test]:
                begun.append(test)
            case ["result", how, test, milliseconds, why]:
                results.append(Result(test, how, int(milliseconds), why.replace("\\n", "\n")))
    return results, begun
