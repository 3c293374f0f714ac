"""How a program ends that has a client open: by an interrupt, or without a word."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from bookledger.cli.processes import BookieProcess, bookie_processes
from ledgers import LedgerClient
from tests.support.command_line import bookledger
from tests.support.processes import hung

SECONDS_MAX = 60


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite://{tmp_path_factory.mktemp('leaving')}/metadata.db"


@pytest.fixture(scope="module")
def bookies(uri: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[BookieProcess]]:
    with bookie_processes(3, tmp_path_factory.mktemp("bookies"), uri) as running:
        yield running


pytestmark = pytest.mark.usefixtures("bookies")


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A program of this project. It is killed if the test ends before it."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    pipe = subprocess.PIPE
    program = [sys.executable, "-P", "-m", *arguments]
    with subprocess.Popen(program, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment) as child:
        try:
            yield child
        finally:
            child.kill()


def told(program: subprocess.Popen[str], word: str) -> str:
    """The next line on its stderr that says so."""
    assert program.stderr is not None
    for line in program.stderr:
        if word in line:
            return line
    raise AssertionError(f"it ended without saying {word!r}")


def end_of(program: subprocess.Popen[str]) -> tuple[int, str]:
    _, said = program.communicate(timeout=SECONDS_MAX)
    return program.returncode, said.rstrip() + "\n" if said else ""


def unread(pipe: int) -> int:
    """Bytes in a pipe that its reader has not taken."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def send(program: subprocess.Popen[str], line: str) -> None:
    """Returns when the program has taken the line in."""
    assert program.stdin is not None
    program.stdin.write(line)
    program.stdin.flush()
    while unread(program.stdin.fileno()):
        assert program.poll() is None
        time.sleep(0.02)


def heard(program: subprocess.Popen[str]) -> str:
    assert program.stdout is not None
    return program.stdout.readline()


@pytest.mark.parametrize("how", ["interrupted", "interrupted_asyncio"])
def test_a_block_that_is_interrupted_closes_its_ledger(uri: str, how: str) -> None:
    with started("tests.support.leaving", how, uri) as program:
        assert heard(program) == "ready\n"
        send(program, "\n")
        assert heard(program) == "pending\n"
        program.send_signal(signal.SIGINT)
        code, said = end_of(program)
    assert code == -signal.SIGINT
    assert said.endswith("KeyboardInterrupt\n") and "waits for" not in said
    with LedgerClient(uri) as client:
        assert list(client.list_ledgers())[-1].last_entry == 1


@pytest.mark.parametrize("how", ["interrupted", "interrupted_asyncio"])
def test_a_block_whose_bookies_hang_says_what_it_waits_for_and_a_second_interrupt_ends_it(
    uri: str, bookies: list[BookieProcess], how: str
) -> None:
    with started("tests.support.leaving", how, uri) as program:
        assert heard(program) == "ready\n"
        with hung(bookies):
            send(program, "\n")
            assert heard(program) == "pending\n"
            program.send_signal(signal.SIGINT)
            line = told(program, "waits for")
            assert "waits for 1 entries to be confirmed, at most 60 s; interrupt it (again)" in line
            program.send_signal(signal.SIGINT)
            code, _ = end_of(program)
    assert code == -signal.SIGINT
    with LedgerClient(uri) as client:
        ledger = list(client.list_ledgers())[-1]
        assert not ledger.is_closed
        assert client.open_ledger(ledger.ledger_id).last_add_confirmed >= 0


@contextmanager
def appending(uri: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """An append that has confirmed two entries of the ledger, and waits for more input."""
    ledger_id = int(bookledger("ledger", "create", f"--metadata={uri}").stdout)
    arguments = ("ledger", "append", f"--metadata={uri}", f"--ledger={ledger_id}")
    with started("bookledger", *arguments) as program:
        send(program, "one\ntwo\n")
        with LedgerClient(uri) as client:
            reader = client.open_ledger(ledger_id, recovery=False)
            while reader.read_last_add_confirmed() < 1:
                assert program.poll() is None
                time.sleep(0.02)
        yield program, ledger_id


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_append_that_is_interrupted_tells_its_ledger_and_the_last_confirmed_entry(
    uri: str, number: signal.Signals
) -> None:
    with appending(uri) as (program, ledger_id):
        program.send_signal(number)
        how = {signal.SIGINT: "interrupted", signal.SIGTERM: "stopped"}[number]
        said = (
            f"bookledger: {how}; ledger {ledger_id} is closed; its last entry is 1; "
            "record 3 of the input goes to a new ledger\n"
        )
        assert end_of(program) == (128 + number, said)


def test_an_append_whose_bookies_hang_ends_with_the_second_interrupt_and_tells_how_to_go_on(
    uri: str, bookies: list[BookieProcess]
) -> None:
    with appending(uri) as (program, ledger_id), hung(bookies):
        send(program, "three\n")
        send(program, "four\n")  # it is asked for when three is on its way
        program.send_signal(signal.SIGINT)
        told(program, "waits for")
        program.send_signal(signal.SIGINT)
        code, said = end_of(program)
    assert code == 128 + signal.SIGINT
    assert said.endswith(
        f"bookledger: interrupted; ledger {ledger_id} is open; its last confirmed entry is 1; "
        f"`bookledger ledger recover {ledger_id}` finds its end\n"
    )


@pytest.mark.parametrize("how", ["open", "open_asyncio", "loops"])
def test_a_program_that_ends_with_all_open_says_nothing(uri: str, how: str) -> None:
    for _ in range(3):
        with started("tests.support.leaving", how, uri) as program:
            assert end_of(program) == (0, "")


CLOSED_LATE = {
    "by a finaliser": """
class Store:
    def __init__(self): self.client = LedgerClient(URI); self.writer = self.client.create_ledger()
    def __del__(self): self.client.close()
kept = Store(); kept.writer.append(b"x")
""",
    "by a generator half-way": """
def ledgers():
    with LedgerClient(URI) as client:
        yield client.create_ledger()
kept = ledgers(); next(kept).append(b"x")
""",
    "by a finaliser that appends": """
class Store:
    def __init__(self): self.client = LedgerClient(URI); self.writer = self.client.create_ledger()
    def __del__(self):
        try: self.writer.append(b"late")
        except ClientClosed: self.client.close()
kept = Store(); kept.writer.append(b"x")
""",
    "by a hook at exit": """
import atexit
client = LedgerClient(URI); atexit.register(client.close)
client.create_ledger().append(b"x")
""",
    "by a hook that closes the ledger": """
import atexit
from contextlib import ExitStack
stack = ExitStack(); atexit.register(stack.close)
client = stack.enter_context(LedgerClient(URI)); writer = stack.enter_context(client.create_ledger())
writer.append(b"x"); atexit.register(print, "ledger", writer.ledger_id)
""",
}


@pytest.mark.parametrize("program", CLOSED_LATE.values(), ids=CLOSED_LATE.keys())
def test_a_client_that_is_closed_while_the_interpreter_ends_holds_nobody_up(uri: str, program: str) -> None:
    code = f"from ledgers import ClientClosed, LedgerClient\nURI = {uri!r}\n{program}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    if done.stdout:
        with LedgerClient(uri) as client:
            assert client.describe_ledger(int(done.stdout.split()[1])).is_closed
