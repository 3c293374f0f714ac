"""Files of passwords, as they must be kept."""

from __future__ import annotations

from pathlib import Path


def password_file(path: Path, content: str | bytes) -> Path:
    """A file that its owner alone can read."""
    path.touch(mode=0o600)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path
