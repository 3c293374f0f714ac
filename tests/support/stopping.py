"""Commands that a test talks with, and stops in the middle of their work, as Ctrl-C does it."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import psutil

from tests.support.waiting import until

SECONDS_MAX = 60


@contextmanager
def started(*arguments: str, env: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """A command in a process of its own. It is killed if the test ends before it."""
    pipe = subprocess.PIPE
    program = [sys.executable, "-m", "bookledger", *arguments]
    with subprocess.Popen(
        program, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=env, preexec_fn=_hears_of_a_hangup
    ) as child:
        try:
            yield child
        finally:
            child.kill()


def _hears_of_a_hangup() -> None:
    """Also where the tests run under `nohup`, which is inherited."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def feed(program: subprocess.Popen[str], text: str) -> None:
    assert program.stdin is not None
    program.stdin.write(text)
    program.stdin.flush()


def next_line(program: subprocess.Popen[str]) -> str:
    """The next one that it prints."""
    assert program.stdout is not None
    return program.stdout.readline()


def line_with(program: subprocess.Popen[str], words: str) -> str:
    """Reads on to the line that it prints with these words."""
    assert program.stdout is not None
    seen = []
    for line in program.stdout:
        if words in line:
            return line
        seen.append(line)
    raise AssertionError(f"it ended, and printed {seen}, without {words!r}")


def stopped(program: subprocess.Popen[str], number: signal.Signals = signal.SIGINT) -> str:
    """Sends the signal, and returns what was said on stderr; the exit code says which signal it was."""
    program.send_signal(number)
    _, said = program.communicate(timeout=SECONDS_MAX)
    assert program.returncode == 128 + number, said
    return said


@contextmanager
def silent_server() -> Iterator[int]:
    """The port of a server that takes connections and answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def await_connected(program: subprocess.Popen[str], port: int) -> None:
    """Returns once the command has a connection to the port of another process."""
    process = psutil.Process(program.pid)

    def is_connected() -> bool:
        assert program.poll() is None, program.communicate()
        return any(
            one.raddr and one.raddr.port == port and one.status == psutil.CONN_ESTABLISHED
            for one in process.net_connections("tcp")
        )

    until(is_connected)
