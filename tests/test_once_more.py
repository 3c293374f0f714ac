"""A failure that comes to nothing alone is named, not hidden; one that stays, or one of many, is red."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.once_more import TESTS_MAX

TOP = Path(__file__).parents[1]
ALONE = "import os\nBESIDE = 'PYTEST_XDIST_WORKER' in os.environ\n"


def ran(where: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """With no other plugins: they take longer to import than all that is run."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "xdist.plugin", "-p", "tests.support.once_more"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [*command, "--rootdir", str(where), *options, str(where)],
        cwd=TOP,
        env={**environment, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def twice(where: Path, text: str) -> tuple[int, int, str]:
    """The exit codes of a run on two processes and of what failed in it once more, and what the second one said."""
    (where / "pytest.ini").write_text("[pytest]\n")
    (where / "test_these.py").write_text(ALONE + text)
    first = ran(where, "-c", str(where / "pytest.ini"), "-n", "2", "--cache-clear")
    again = ran(
        where,
        *(
            "-c",
            str(where / "pytest.ini"),
            "--once-more",
            "--last-failed",
            "--last-failed-no-failures",
            "none",
        ),
    )
    return first.returncode, again.returncode, again.stdout


def test_what_passes_alone_is_green_and_named_with_its_first_failure(tmp_path: Path) -> None:
    first, again, said = twice(
        tmp_path, "def test_good(): pass\ndef test_a(): assert not BESIDE, 'the machine was busy'\n"
    )
    assert (first, again) == (1, 0)
    told = said[said.index("passed only alone:") :]
    assert "test_these.py::test_a" in told and "the machine was busy" in told
    assert "test_good" not in told


@pytest.mark.parametrize("broken", ["assert False", "os._exit(1)"])
def test_what_fails_alone_too_is_red(tmp_path: Path, broken: str) -> None:
    first, again, said = twice(tmp_path, f"def test_a(): {broken}\ndef test_b(): assert not BESIDE\n")
    assert first == 1 and again != 0
    assert "passed only alone" not in said


@pytest.mark.parametrize(("failing", "code"), [(TESTS_MAX, 0), (TESTS_MAX + 1, 1)])
def test_more_than_a_few_are_red_and_not_run_again(tmp_path: Path, failing: int, code: int) -> None:
    text = "".join(f"def test_{n}(): assert not BESIDE\n" for n in range(failing))
    first, again, _ = twice(tmp_path, text)
    assert (first, again) == (1, code)
