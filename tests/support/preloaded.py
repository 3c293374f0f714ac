"""Commands in processes of their own, forked from one that has imported the command line before: importing takes most
of a command's time. `python -m tests.support.preloaded` is that process; `run` asks it, from any thread.

A command has its own files, arguments, environment and directory, and ends as an interpreter does. What depends on how
an interpreter starts (its options, its import path) is tested with `subprocess`.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from typing import IO

REQUEST_BYTES_MAX = 1024 * 1024
MODULES = (
    "bookledger.cli.main",
    "bookledger.cli.bookie.group",
    "bookledger.cli.cluster.group",
    "bookledger.cli.journal.group",
    "bookledger.cli.ledger.group",
    "bookledger.cli.metadata.group",
    "bookledger.cluster.survey",
    "ledgers.aio",
    "ledgers.blocking.client",
    "metadata.etcd.store",
    "metadata.sqlite.store",
    "qjm_compat.blocking",
)

_starting = threading.Lock()
_server: tuple[int, socket.socket, subprocess.Popen[bytes]] | None = None
"""The process that is asked, and the id of the one that started it: a fork of ours starts another."""


def run(
    arguments: Sequence[str], stdin: bytes, env: Mapping[str, str], seconds_max: float
) -> subprocess.CompletedProcess[bytes]:
    """`bookledger ARGUMENTS…`, as `subprocess.run` with captured output. Raises TimeoutExpired after killing it."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin)
        given.seek(0)
        with _asked(arguments, env, (given, out, err)) as answers:
            answers.settimeout(seconds_max)
            pid = int(_line(answers))
            try:
                code = int(_line(answers))
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(list(arguments), seconds_max) from None
        return subprocess.CompletedProcess(list(arguments), code, _all_of(out), _all_of(err))


def _asked(arguments: Sequence[str], env: Mapping[str, str], files: Sequence[IO[bytes]]) -> socket.socket:
    request = json.dumps({"arguments": list(arguments), "env": dict(env), "directory": os.getcwd()}).encode()
    assert len(request) <= REQUEST_BYTES_MAX
    ours, theirs = socket.socketpair()
    with theirs, tempfile.TemporaryFile() as asked:
        asked.write(request)
        asked.seek(0)
        descriptors = [theirs.fileno(), asked.fileno(), *(file.fileno() for file in files)]
        with _starting:
            socket.send_fds(_running(), [b"."], descriptors)
    return ours


def _running() -> socket.socket:
    global _server
    if _server is None or _server[0] != os.getpid():
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            started = subprocess.Popen(
                [sys.executable, "-m", "tests.support.preloaded", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        _server = os.getpid(), ours, started
        atexit.register(_end, *_server)
    return _server[1]


def _end(owner: int, ours: socket.socket, started: subprocess.Popen[bytes]) -> None:
    if owner == os.getpid():
        ours.close()
        started.wait()


def _line(answers: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        got = answers.recv(64)
        assert got, "the process that runs commands is gone"
        line += got
    return line


def _all_of(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


# --- the process that is asked -------------------------------------------------------------------


def serve(requests: socket.socket) -> list[str] | None:
    """Forks for each request; returns its arguments in the process that shall run it, None at the end."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the processes that wait for commands
    while True:
        word, descriptors, _, _ = socket.recv_fds(requests, 1, 8)
        if not word:
            return None
        if os.fork() == 0:
            requests.close()
            return _command(descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _command(descriptors: Sequence[int]) -> list[str]:
    """Forks once more: the parent waits for the command and tells its end, the child becomes it."""
    answers, asked, *files = descriptors
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if pid := os.fork():
        os.write(answers, b"%d\n" % pid)
        _, status = os.waitpid(pid, 0)
        os.write(answers, b"%d\n" % os.waitstatus_to_exitcode(status))
        os._exit(0)
    request = json.loads(os.read(asked, REQUEST_BYTES_MAX))
    for number, file in enumerate(files):
        os.dup2(file, number)
    for descriptor in descriptors:
        os.close(descriptor)
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["env"])
    return list(request["arguments"])


def _main() -> None:
    import importlib

    for module in MODULES:
        importlib.import_module(module)
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        arguments = serve(requests)
    if arguments is not None:
        from bookledger.cli.main import main

        sys.argv = ["bookledger", *arguments]
        main()


if __name__ == "__main__":
    _main()
