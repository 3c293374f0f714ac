"""Commands in processes of their own, forked from one that has imported the command line before: importing takes most
of a command's time. `python -m tests.support.preloaded` is that process; `run` asks it, from any thread.

A command has its own files, arguments, environment and directory, and ends as an interpreter does. What depends on how
an interpreter starts (its options, its import path) is tested with `subprocess`.
"""

from __future__ import annotations

import atexit
import faulthandler
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any

REQUEST_BYTES_MAX = 1024 * 1024
MODULES = (
    "bookledger.cli.main",
    "bookledger.cli.bookie.group",
    "bookledger.cli.bookie.run",
    "bookledger.cli.bookie.serving",
    "bookie.serving.daemon",
    "bookledger.cli.cluster.group",
    "bookledger.admin.http.server",
    "bookledger.cli.journal.group",
    "bookledger.cli.journal.serve",
    "bookledger.cli.journal_node.embedded_node",
    "bookledger.cli.ledger.group",
    "bookledger.cli.metadata.group",
    "bookledger.cluster.survey",
    "ledgers.aio",
    "ledgers.blocking.client",
    "metadata.etcd.store",
    "metadata.sqlite.store",
    "qjm_compat.blocking",
    "qjm_compat.hadoop.journal_node_daemon",
)

_starting = threading.Lock()
_server: tuple[int, socket.socket, subprocess.Popen[bytes]] | None = None
"""The process that is asked, and the id of the one that started it: a fork of ours starts another."""


def run(
    arguments: Sequence[str], stdin: bytes, env: Mapping[str, str], seconds_max: float
) -> subprocess.CompletedProcess[bytes]:
    """`bookledger ARGUMENTS…`, as `subprocess.run` with captured output. Raises TimeoutExpired after killing it, and
    prints what its threads were at."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin)
        given.seek(0)
        files = given.fileno(), out.fileno(), err.fileno()
        with _asked(arguments, env, files) as answers:
            answers.settimeout(seconds_max)
            pid = int(_line(answers))
            try:
                code = int(_line(answers))
            except TimeoutError:
                os.kill(pid, signal.SIGABRT)
                _line(answers)
                print(arguments, "hangs:", _all_of(err).decode(), file=sys.stderr)
                raise subprocess.TimeoutExpired(list(arguments), seconds_max) from None
        return subprocess.CompletedProcess(list(arguments), code, _all_of(out), _all_of(err))


class Forked:
    """A command that goes on beside us: what `bookledger.cli.child` uses of `subprocess.Popen`, its input and output
    pipes."""

    def __init__(self, arguments: Sequence[str], stderr: IO[bytes], env: Mapping[str, str]) -> None:
        self.args = list(arguments)
        self.returncode: int | None = None
        theirs_in, ours_in = os.pipe()
        ours_out, theirs_out = os.pipe()
        self.stdin: IO[bytes] = os.fdopen(ours_in, "wb")
        self.stdout: IO[bytes] = os.fdopen(ours_out, "rb")
        try:
            self._answers = _asked(arguments, env, (theirs_in, theirs_out, stderr.fileno()))
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        self.pid = int(_line(self._answers))

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._answers.settimeout(timeout)
            try:
                self.returncode = int(_line(self._answers))
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(self.args, timeout or 0) from None
            self._answers.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkedChildren:
    """Stands in for the module `subprocess` where the product starts itself as a child."""

    PIPE, TimeoutExpired = subprocess.PIPE, subprocess.TimeoutExpired

    @staticmethod
    def Popen(command: Sequence[str], **how: Any) -> Forked | subprocess.Popen[bytes]:
        _, *options = command
        arguments = options[options.index("-m") + 1 :] if "-m" in options else [""]
        is_ours = arguments[0] == "bookledger" and is_forkable(how["env"])
        if not is_ours or how["stderr"].closed:
            return subprocess.Popen(command, **how)
        return Forked(arguments[1:], how["stderr"], how["env"])


def is_forkable(environment: Mapping[str, str]) -> bool:
    """Whether a command in this environment may be forked: it says to the interpreter what ours said at its start."""
    return _of_the_interpreter(environment) == _AT_START


def _of_the_interpreter(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(("PYTHON", "LANG", "LC_", "LD_"))
    }


_AT_START = _of_the_interpreter(os.environ)


def _asked(arguments: Sequence[str], env: Mapping[str, str], files: Sequence[int]) -> socket.socket:
    request = json.dumps({"arguments": list(arguments), "env": dict(env), "directory": os.getcwd()}).encode()
    assert len(request) <= REQUEST_BYTES_MAX
    ours, theirs = socket.socketpair()
    with theirs, tempfile.TemporaryFile() as asked:
        asked.write(request)
        asked.seek(0)
        descriptors = [theirs.fileno(), asked.fileno(), *files]
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
        got = answers.recv(1)  # the next line may have come already
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
        waits, goes_on = os.pipe()
        if os.fork() == 0:
            requests.close()
            os.close(goes_on)
            os.read(waits, 1)  # until the files are open here alone
            os.close(waits)
            return _command(descriptors)
        for descriptor in (*descriptors, waits, goes_on):
            os.close(descriptor)


def _command(descriptors: Sequence[int]) -> list[str]:
    """Forks once more: the parent waits for the command and tells its end, the child becomes it."""
    answers, asked, *files = descriptors
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if pid := os.fork():
        os.write(answers, b"%d\n" % pid)
        for file in files:  # whoever is told of the command's end may unmount where they are
            os.close(file)
        _, status = os.waitpid(pid, 0)
        os.write(answers, b"%d\n" % os.waitstatus_to_exitcode(status))
        os._exit(0)
    request = json.loads(os.read(asked, REQUEST_BYTES_MAX))
    for number, file in enumerate(files):
        os.dup2(file, number)
    for descriptor in descriptors:
        os.close(descriptor)
    faulthandler.enable()  # tells what every thread is at when it is killed for its slowness
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["env"])
    return list(request["arguments"])


def _main() -> None:
    import importlib

    for module in MODULES:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # what is imported is collected by nobody: neither beside a command nor at its end
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        arguments = serve(requests)
    if arguments is not None:
        from bookledger.cli.main import main

        sys.argv = ["bookledger", *arguments]
        main()


if __name__ == "__main__":
    _main()
