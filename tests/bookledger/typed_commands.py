"""What tests of settings give to the commands that they type, and get from them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

Run = Callable[..., tuple[int, str, str]]
"""Exit code, standard output and standard error of a command with these arguments."""


def file_of(tmp_path: Path, text: str) -> str:
    """A settings file with this text."""
    path = tmp_path / "bookledger.toml"
    path.write_text(text)
    return str(path)
