"""Commands as they are typed, run inside the test's process, with nothing set in the environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bookledger.cli.main import main
from metadata.settings.file import COMMON

Run = Callable[..., tuple[int, str, str]]
"""Exit code, standard output and standard error of a command with these arguments."""


@contextmanager
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No common setting stands in the environment; what a command sets there is gone afterwards."""
    before = dict(os.environ)
    for name in [*COMMON.values(), "BOOKLEDGER_CONFIG"]:
        monkeypatch.delenv(name, raising=False)
    yield
    for name in COMMON.values():
        if name not in before:
            os.environ.pop(name, None)


def running(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        said = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, said.out, said.err

    return call


def file_of(tmp_path: Path, text: str) -> str:
    """A settings file with this text."""
    path = tmp_path / "bookledger.toml"
    path.write_text(text)
    return str(path)
