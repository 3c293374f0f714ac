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


def checked(tool: str, tmp_path: Path, *, wrong: bool) -> subprocess.CompletedProcess[str]:
    """Somewhere else, with none of our settings. A `wrong` one has an argument of a type that is none."""
    text = PROGRAM.read_text()
    assert text.count(WRONG) == 1
    (tmp_path / "app.py").write_text(text.replace(WRONG, 'read_ahead_pages="2"') if wrong else text)
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.11"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = {
        "mypy": ["mypy", "--strict", f"--cache-dir={tmp_path}/cache", "--python-version=3.11", "app.py"],
        "pyright": ["pyright", "--pythonpath", sys.executable, "app.py"],
    }[tool]
    environment = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )


@pytest.fixture(params=["mypy", "pyright"])
def tool(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    name: str = request.param
    if find_spec(name) is None:
        pytest.skip(f"{name} is not installed: pip install -e '.[dev]'")
    if name == "pyright":
        if shutil.which("node") is None:
            pytest.skip("pyright needs node, which is not installed")
        version = [sys.executable, "-m", "pyright", "--version"]
        if subprocess.run(version, cwd=tmp_path, capture_output=True, check=False).returncode:
            pytest.skip("pyright could not fetch its program from npm")
    return name


def test_a_strict_type_checker_finds_nothing_to_say(tool: str, tmp_path: Path) -> None:
    done = checked(tool, tmp_path, wrong=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_would_notice_an_argument_of_a_wrong_type(tool: str, tmp_path: Path) -> None:
    done = checked(tool, tmp_path, wrong=True)
    assert done.returncode == 1
    assert "read_ahead_pages" in done.stdout
