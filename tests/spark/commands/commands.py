"""Commands on Spark as tests run them: in this process on the session that is there, or in one of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

import pytest

from bookledger.cli.main import main


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, list[str]]:
    """The exit code, what is printed, and the lines on stderr."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    said = capsys.readouterr()
    return int(str(ended.value.code)), said.out, said.err.splitlines()


def started(*arguments: str, environment: Mapping[str, str | None] | None = None) -> subprocess.Popen[bytes]:
    """The command in a process of its own; a variable that is None is unset there."""
    changed = {**os.environ, **(environment or {})}
    return subprocess.Popen(
        [sys.executable, "-m", "bookledger", *arguments],
        env={name: value for name, value in changed.items() if value is not None},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def ended(process: subprocess.Popen[bytes], seconds_max: float = 120) -> tuple[int, str, list[str]]:
    """As `call` gives it. Killed when it does not end in time."""
    try:
        out, err = process.communicate(timeout=seconds_max)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return process.returncode, out.decode(), err.decode().splitlines()
