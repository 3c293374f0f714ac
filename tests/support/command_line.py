"""The command line in a process of its own, as a shell runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import psutil

from tests.support import preloaded

SECONDS_MAX = 120


def bookledger(
    *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    environment = os.environ if env is None else env
    if not preloaded.is_forkable(environment):
        command = [sys.executable, "-m", "bookledger", *arguments]
        return subprocess.run(
            command, input=stdin, capture_output=True, timeout=SECONDS_MAX, check=False, env=env
        )
    return preloaded.run(arguments, stdin, environment, SECONDS_MAX)


def succeeds(*arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
    """What a command that ends well printed."""
    done = bookledger(*arguments, stdin=stdin, env=env)
    assert done.returncode == 0, done
    return done.stdout


def printed(*arguments: str, stdin: bytes = b"", code: int = 0) -> list[Any]:
    """The lines of JSON of a command that ends with this code and has nothing to say beside them."""
    done = bookledger(*arguments, "--json", stdin=stdin)
    assert (done.returncode, done.stderr) == (code, b""), done
    return [json.loads(line) for line in done.stdout.splitlines()]


def told(*arguments: str, stdin: bytes = b"") -> Any:
    """The only one of them."""
    (only,) = printed(*arguments, stdin=stdin)
    return only


def fails_with_one_line(*arguments: str, stdin: bytes = b"") -> str:
    done = bookledger(*arguments, stdin=stdin)
    assert done.returncode == 1, done
    assert done.stdout == b""
    (line,) = done.stderr.decode().splitlines()
    return line.removeprefix("bookledger: ")


def lines(count: int) -> bytes:
    return b"".join(b"line %d\n" % n for n in range(count))


def children_left() -> list[str]:
    """Command lines of this process's children that are bookledger."""
    return [
        " ".join(child.cmdline())
        for child in psutil.Process().children()
        if any(part == "bookledger" or part.startswith("bookledger.") for part in child.cmdline())
    ]
