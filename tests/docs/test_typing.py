"""What a program of somebody else's gets from our types: all of them, to the last argument."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("downstream.py")
WRONG = "read_ahead_pages=2"


@pytest.fixture(scope="module", params=["mypy", "pyright"])
def checked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The errors that a strict type checker finds in two programs: `wrong.py` has an argument of a type that is none.

    They stand somewhere else, with none of our settings.
    """
    tool, place = request.param, tmp_path_factory.mktemp("downstream")
    _skip_without(tool, place)
    text = PROGRAM.read_text()
    assert text.count(WRONG) == 1
    (place / "right.py").write_text(text)
    (place / "wrong.py").write_text(text.replace(WRONG, 'read_ahead_pages="2"'))
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.11"}
    (place / "pyrightconfig.json").write_text(json.dumps(settings))
    command = {
        "mypy": ["mypy", "--strict", f"--cache-dir={place}/cache", "--python-version=3.11"],
        "pyright": ["pyright", "--pythonpath", sys.executable],
    }[tool]
    done = subprocess.run(
        [sys.executable, "-m", *command, "right.py", "wrong.py"],
        cwd=place,
        env={**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if "error:" in line]


def _skip_without(tool: str, place: Path) -> None:
    if find_spec(tool) is None:
        pytest.skip(f"{tool} is not installed: pip install -e '.[dev]'")
    if tool == "pyright":
        if shutil.which("node") is None:
            pytest.skip("pyright needs node, which is not installed")
        version = [sys.executable, "-m", "pyright", "--version"]
        if subprocess.run(version, cwd=place, capture_output=True, check=False).returncode:
            pytest.skip("pyright could not fetch its program from npm")


def test_a_strict_type_checker_finds_nothing_to_say(checked: list[str]) -> None:
    assert [error for error in checked if "wrong.py:" not in error] == []


def test_it_would_notice_an_argument_of_a_wrong_type(checked: list[str]) -> None:
    (error,) = [error for error in checked if "wrong.py:" in error]
    assert "read_ahead_pages" in error
