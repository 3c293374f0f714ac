"""TAB finishes commands and options, in a real bash and as click asks for zsh and fish."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bookledger.cli.config.completion import SHELLS, VARIABLE
from tests.support.command_line import succeeds

SECONDS_MAX = 60


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_gets_a_function_that_asks_the_program(shell: str) -> None:
    source = succeeds("completion", shell).decode()
    assert f"{VARIABLE}={shell}_complete" in source


def completed(line: str, word: int) -> list[str]:
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(word), VARIABLE: "bash_complete"}
    told = succeeds(env=os.environ | asked).decode()
    return [line.partition(",")[2] for line in told.splitlines()]


def test_commands_groups_and_options_are_finished() -> None:
    assert completed("bookledger co", 1) == ["console", "config", "completion"]
    assert completed("bookledger ledger ap", 2) == ["append"]
    assert completed("bookledger ledger append --json-l", 3) == ["--json-lines"]


REAL = {
    "bash": (
        "--norc",
        (
            'eval "$(bookledger completion bash)"; COMP_WORDS=(bookledger autor); COMP_CWORD=1; '
            '_bookledger_completion bookledger autor bookledger; echo "${COMPREPLY[@]}"'
        ),
        "autorecovery",
    ),
    "zsh": (
        "-f",
        'eval "$(bookledger completion zsh)"; print $_comps[bookledger]',
        "_bookledger_completion",
    ),
    "fish": (
        "--no-config",
        'bookledger completion fish | source; complete -C "bookledger autor"',
        "autorecovery",
    ),
}
"""How each shell is started without anybody's settings, what it runs, and the first word of what it says then."""


@pytest.mark.parametrize("shell", SHELLS)
def test_a_real_shell_finishes_a_command(tmp_path: Path, shell: str) -> None:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"there is no {shell}")
    program = tmp_path / "bookledger"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m bookledger "$@"\n')
    program.chmod(0o755)
    plain, script, said = REAL[shell]
    done = subprocess.run(
        [found, plain, "-c", script],
        capture_output=True,
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)},
        timeout=SECONDS_MAX,
        check=False,
    )
    assert (done.stdout.decode().split()[:1], done.stderr.decode()) == ([said], "")
