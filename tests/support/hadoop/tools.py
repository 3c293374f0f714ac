"""Hadoop's commands: the shell, the administrator's, and the offline edits viewer; about a second each."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Literal, Protocol

from tests.support.hadoop.jars import java

TOOL_SECONDS_MAX = 120.0
OUTPUT_CHARACTERS_MAX = 4000
SHELL = "org.apache.hadoop.fs.FsShell"
ADMIN = "org.apache.hadoop.hdfs.tools.DFSAdmin"
VIEWER = "org.apache.hadoop.hdfs.tools.offlineEditsViewer.OfflineEditsViewer"


class HadoopFailed(Exception):
    """A program of Hadoop's failed, did not start or did not end in time; the message is what it last said."""


class Configured(Protocol):
    """A daemon, as far as a command needs to know it."""

    version: str

    @property
    def configuration(self) -> Path: ...


def fs(name_node: Configured, *arguments: str) -> str:
    """`hdfs dfs`: what the command printed. Many paths in one call cost no more than one.

    Raises HadoopFailed if it failed, which includes a `-test` that is false.
    """
    return run(name_node.version, SHELL, *arguments, configuration=name_node.configuration)


def dfsadmin(name_node: Configured, *arguments: str) -> str:
    """`hdfs dfsadmin`, as `fs`."""
    return run(name_node.version, ADMIN, *arguments, configuration=name_node.configuration)


def oev(version: str, file: Path, processor: Literal["xml", "stats"] = "xml") -> str:
    """What that version's offline edits viewer says of a segment, finalized or in progress.

    Raises HadoopFailed for a segment it cannot read.
    """
    if file.suffix == ".xml":
        raise ValueError(f"{file}: the viewer takes this for XML by its name")
    return _view(version, file, processor).decode()


def xml_to_edits(version: str, xml: str) -> bytes:
    """The segment that the viewer makes of its own XML: header and records, no padding.

    Raises HadoopFailed for XML it cannot read; an OP_TRUNCATE with a BLOCK is among that in both versions.
    """
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "edits.xml"
        file.write_bytes(xml.encode())
        return _view(version, file, "binary")


def run(version: str, main: str, *arguments: str, configuration: Path | None = None, said: str = "") -> str:
    """What the class `main` wrote to its standard output; `said` is its standard input.

    Raises HadoopFailed if it failed or took too long.
    """
    with tempfile.TemporaryDirectory() as directory:
        command = java(version, main, *arguments, configuration=configuration, tmp=Path(directory))
        try:
            done = subprocess.run(
                command,
                input=said.encode(),
                capture_output=True,
                cwd=directory,
                timeout=TOOL_SECONDS_MAX,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired as late:
            raise HadoopFailed(
                f"{main} took longer than {TOOL_SECONDS_MAX:g} s:\n{_tail(late.stderr)}"
            ) from late
    if done.returncode != 0:
        said = _tail(done.stdout + done.stderr)
        raise HadoopFailed(f"{main} {' '.join(arguments)} ended with {done.returncode}:\n{said}")
    return done.stdout.decode()


def _view(version: str, file: Path, processor: str) -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        result = Path(directory) / "result"
        run(version, VIEWER, "-p", processor, "-i", str(file.absolute()), "-o", str(result))
        return result.read_bytes()


def _tail(output: bytes | None) -> str:
    return (output or b"").decode(errors="replace")[-OUTPUT_CHARACTERS_MAX:]
