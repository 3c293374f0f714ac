"""Commands as they are typed, run inside the test's process, with nothing set in the environment."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from bookledger.cli.main import main
from metadata.settings.settings_file import COMMON

from .typed_commands import Run


@pytest.fixture
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No common setting stands in the environment; what a command sets there is gone afterwards."""
    before = dict(os.environ)
    for name in [*COMMON.values(), "BOOKLEDGER_CONFIG"]:
        monkeypatch.delenv(name, raising=False)
    yield
    for name in COMMON.values():
        if name not in before:
            os.environ.pop(name, None)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        said = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, said.out, said.err

    return call
