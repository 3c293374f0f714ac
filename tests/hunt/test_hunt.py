"""A hunt writes down what it finds, with the command that repeats it, and is quiet else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.hunt import __main__ as hunts
from tests.hunt.__main__ import HUNTS, Hunt, hunt, main


def test_what_is_found_is_written_down_with_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = "import os; print('repeat it with: SEED=7', os.environ['CHANCE']); raise SystemExit(1)"
    monkeypatch.setitem(
        HUNTS, "made-up", Hunt("made up", lambda seconds: ("-c", program), (("CHANCE", "3"),))
    )
    found = hunt("made-up", 1, tmp_path)
    assert found is not None
    command, *said = found.read_text().splitlines()
    assert command.startswith(f"CHANCE=3 {sys.executable} -c ")
    assert said == ["repeat it with: SEED=7 3"]


def test_a_hunt_that_finds_nothing_leaves_only_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(HUNTS, "made-up", Hunt("made up", lambda seconds: ("-c", f"print({seconds})")))
    assert hunt("made-up", 11, tmp_path) is None
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("made-up.log", "11\n")]


def test_a_layer_is_hunted_for_so_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Here from a seed that is told: what fresh ones find is no word about a change."""
    fresh = HUNTS["cores"].command
    assert "--first-seed" not in fresh(1)
    told = Hunt("from seed 0", lambda seconds: (*fresh(seconds), "--first-seed", "0"))
    monkeypatch.setitem(HUNTS, "cores", told)
    monkeypatch.setattr(hunts, "RESULTS", tmp_path)
    assert main(["cores", "--seconds=1"]) == 0
    assert "nothing found" in capsys.readouterr().out
    assert "violations=0" in (tmp_path / "cores.log").read_text()


def test_without_a_name_all_there_are_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    told = capsys.readouterr().out
    assert all(f"  {name} " in told for name in HUNTS)
