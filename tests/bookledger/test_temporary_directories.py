"""A scratch directory lives as long as its run, and a leftover until the next one of the same purpose."""

from __future__ import annotations

import errno
import fcntl
import shutil
import tempfile
from pathlib import Path

import pytest

from bookledger.cli.temporary_directories import scratch_directory


def leftover(parent: Path, name: str) -> Path:
    """What a run that was killed has left: nobody holds its lock."""
    (parent / name / "below").mkdir(parents=True)
    (parent / name / "below" / "file").write_text("left")
    return parent / name


def test_it_is_there_inside_the_block_and_gone_after_it_also_after_an_error(tmp_path: Path) -> None:
    said: list[str] = []
    with pytest.raises(ZeroDivisionError), scratch_directory("test", tmp_path, said.append) as directory:
        (directory / "file").write_text("x")
        assert directory.parent == tmp_path
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    assert said == []


def test_leftovers_of_the_same_purpose_are_removed_and_told(tmp_path: Path) -> None:
    left = leftover(tmp_path, "bookledger-test-aaaaaaaa")
    others = [leftover(tmp_path, f"bookledger-{name}") for name in ("other-aaaaaaaa", "test-of-somebody")]
    said: list[str] = []
    with scratch_directory("test", tmp_path, said.append):
        assert not left.exists()
        assert all(other.exists() for other in others)
    assert said == [f"removed {left}, which a test that was killed had left"]


def test_what_is_in_use_is_left_alone(tmp_path: Path) -> None:
    said: list[str] = []
    with scratch_directory("test", tmp_path, said.append) as one:
        with scratch_directory("test", tmp_path, said.append) as other:
            assert one.exists()
            assert one != other
        assert one.exists()
    assert said == []


def test_what_is_no_directory_of_ours_is_left_alone(tmp_path: Path) -> None:
    precious = leftover(tmp_path, "precious")
    (tmp_path / "bookledger-test-linklink").symlink_to(precious)
    (tmp_path / "bookledger-test-filefile").write_text("mine")
    with scratch_directory("test", tmp_path, lambda _: None):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "bookledger-test-filefile",
        "bookledger-test-linklink",
        "precious",
    ]
    assert (precious / "below" / "file").exists()


def test_what_cannot_be_removed_is_told_and_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = leftover(tmp_path, "bookledger-test-aaaaaaaa")
    remove = shutil.rmtree

    def refuse(path: Path) -> None:
        if path == left:
            raise PermissionError(1, "Operation not permitted")
        remove(path)

    monkeypatch.setattr(shutil, "rmtree", refuse)
    said: list[str] = []
    with scratch_directory("test", tmp_path, said.append) as directory:
        assert directory.exists()
    assert said == [
        f"could not remove {left}, which a test that was killed had left: Operation not permitted"
    ]


def test_one_that_another_run_took_for_a_leftover_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between being made and being locked a directory looks like a leftover."""
    make = tempfile.mkdtemp
    made: list[str] = []

    def make_and_lose_the_first(prefix: str, dir: Path) -> str:  # noqa: A002 — as tempfile has it
        made.append(make(prefix=prefix, dir=dir))
        if len(made) == 1:
            Path(made[0]).rmdir()
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", make_and_lose_the_first)
    with scratch_directory("test", tmp_path, lambda _: None) as directory:
        assert str(directory) == made[1]


def test_where_a_file_system_has_no_locks_runs_work_and_leftovers_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fd: int, operation: int) -> None:
        raise OSError(errno.EBADF, "a directory on NFS")

    left = leftover(tmp_path, "bookledger-test-aaaaaaaa")
    monkeypatch.setattr(fcntl, "flock", refuse)
    said: list[str] = []
    with scratch_directory("test", tmp_path, said.append) as directory:
        assert directory.exists() and left.exists()
    assert list(tmp_path.iterdir()) == [left] and said == []
