"""TAB finishes commands and options, in a real bash and as click asks for zsh and fish."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bookledger.cli.config.completion import SHELLS, VARIABLE

SECONDS_MAX = 60


def bookledger(*arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "bookledger", *arguments],
        capture_output=True,
        env=os.environ | environment,
        timeout=SECONDS_MAX,
        check=True,
    )
    return done.stdout.decode()


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_gets_a_function_that_asks_the_program(shell: str) -> None:
    source = bookledger("completion", shell)
    assert f"{VARIABLE}={shell}_complete" in source


def completed(line: str, word: int) -> list[str]:
    told = bookledger(COMP_WORDS=line, COMP_CWORD=str(word), **{VARIABLE: "bash_complete"})
    return [line.partition(",")[2] for line in told.splitlines()]


def test_commands_groups_and_options_are_finished() -> None:
    assert completed("bookledger co", 1) == ["console", "config", "completion"]
    assert completed("bookledger ledger ap", 2) == ["append"]
    assert completed("bookledger ledger append --json-l", 3) == ["--json-lines"]


def test_a_real_bash_finishes_a_command(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    program = tmp_path / "bookledger"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m bookledger "$@"\n')
    program.chmod(0o755)
    script = (
        'eval "$(bookledger completion bash)"; COMP_WORDS=(bookledger autor); COMP_CWORD=1; '
        '_bookledger_completion bookledger autor bookledger; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        [bash, "--norc", "-c", script],
        capture_output=True,
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        timeout=SECONDS_MAX,
        check=False,
    )
    assert (done.stdout.decode().strip(), done.stderr.decode()) == ("autorecovery", "")
