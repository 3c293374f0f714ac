"""A child process says why it failed, and can be made to die with its parent."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from bookledger.cli.processes import BOOKLEDGER, Child, ChildFailed

END_SECONDS_MAX = 30.0


def test_a_child_that_fails_is_told_with_its_last_words(tmp_path: Path) -> None:
    places = (f"--metadata=sqlite://{tmp_path}/metadata.db", f"--data={tmp_path}/b")
    formatting = Child((*BOOKLEDGER, "bookie", "format", *places, "--id=b/1"), name="bookie b/1")
    with pytest.raises(ChildFailed, match=r"^bookie b/1: .*'b/1'"):
        formatting.hear()
    silent = Child(["-c", "import sys; sys.exit(3)"], name="nobody")
    with pytest.raises(ChildFailed, match=r"^nobody: ended with exit code 3$"):
        silent.hear()


def test_only_the_last_words_of_this_child_are_told_from_a_log_that_others_wrote_to(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("an older line\n")
    for program, words in (("", "ended with exit code 0"), ("sys.stderr.write('new\\n\\n')", "new")):
        child = Child(["-c", f"import sys; {program}"], name="it", log=log)
        with pytest.raises(ChildFailed, match=f"^it: {words}$"):
            child.hear()
    assert log.read_text() == "an older line\nnew\n\n"


def test_a_word_to_a_child_that_is_gone_is_told_with_its_last_words() -> None:
    child = Child(["-c", "import os, sys; os.close(0); sys.exit('no more')"], name="it")
    with pytest.raises(ChildFailed, match=r"^it: no more$"):
        while True:
            child.send("word")


PARENT = """
import os, signal, sys
from bookledger.cli.child import Child

child = Child(["-m", "tests.support.silent"], dies_with_parent=True)
child.hear()
child.signal(signal.SIGSTOP)
print(child.pid, flush=True)
sys.stdin.read()
"""


def test_a_child_that_dies_with_its_parent_does_so_also_while_it_is_stopped() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    child.wait(END_SECONDS_MAX)


def test_a_child_whose_parent_was_gone_before_it_could_ask_does_not_run() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    command = [sys.executable, "-m", "bookledger.cli.with_parent", str(gone.pid), "tests.support.silent"]
    done = subprocess.run(command, capture_output=True, timeout=END_SECONDS_MAX, check=False)
    assert done.returncode == 1
    assert b"is gone" in done.stderr
    assert done.stdout == b""


STARTS_CHILDREN = """
import os
from bookledger.cli.child import Child

os.register_at_fork(before=lambda: print("a hook ran", flush=True))
for dies in (False, True):
    Child(["-m", "tests.support.silent"], dies_with_parent=dies).stop()
"""


def test_no_python_runs_around_a_fork_where_a_signal_would_be_lost() -> None:
    """What a signal's handler raises inside such a hook is swallowed, and the hook's lock stays taken."""
    done = subprocess.run(
        [sys.executable, "-c", STARTS_CHILDREN], capture_output=True, timeout=END_SECONDS_MAX, check=True
    )
    assert done.stdout == b""
