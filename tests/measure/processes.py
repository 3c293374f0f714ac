"""One real bookie, and how much memory it has to itself."""

from __future__ import annotations

from pathlib import Path

from bookledger.cli.processes import BookieProcess


def private_mib(bookie: BookieProcess) -> int:
    """MiB that the process shares with nobody; the index is mapped, and its pages are the page cache's."""
    rollup = Path(f"/proc/{bookie.child.pid}/smaps_rollup").read_text()
    sizes = {line.split(":")[0]: int(line.split()[1]) for line in rollup.splitlines()[1:]}
    return (sizes["Private_Clean"] + sizes["Private_Dirty"]) >> 10


def log_bytes(bookie: BookieProcess) -> int:
    return sum(segment.stat().st_size for segment in (bookie.directory / "log").iterdir())
