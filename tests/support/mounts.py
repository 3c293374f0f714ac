"""Places to mount file systems at, outside of pytest's directories: cleaning those, the next run would fail at what an
interrupted one has left mounted."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mount_point() -> Iterator[Path]:
    """An empty directory; nothing may be mounted there any more when the block ends."""
    path = Path(tempfile.mkdtemp(prefix="bookledger-disk-"))
    try:
        yield path
    finally:
        path.rmdir()


@contextmanager
def small_disk(size: str) -> Iterator[Path]:
    """A tmpfs of this size, in the words of mount(8). Skips the test where it cannot be mounted."""
    with mount_point() as path:
        if os.geteuid() != 0:
            pytest.skip("mounting a small disk needs root")
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(path)],
            capture_output=True,
            check=False,
        )
        if mounted.returncode != 0:
            pytest.skip(f"cannot mount a tmpfs here: {mounted.stderr.decode().strip()}")
        try:
            yield path
        finally:  # lazily: a process that was killed just now may have it open still
            subprocess.run(["umount", "--lazy", str(path)], check=True)
