"""Where the bookies of a chaos run live: each behind a proxy, one of them on a small disk that can be filled.

A bookie tells its clients the address of its proxy: another one of this machine, and its own port.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bookledger.cli.processes import BookieProcess
from tests.support.proxy import Proxy

SMALL_DISK_MIB = 3000
LEFT_BYTES = 2**20
"""What a full disk has left."""


@dataclass(slots=True, eq=False)
class Host:
    """`small_disk`: where it is mounted, if this host has one."""

    bookie: BookieProcess
    proxied_host: str
    small_disk: Path | None
    proxy: Proxy | None = None

    def fill(self) -> None:
        """Leaves next to nothing on the small disk."""
        assert self.small_disk is not None
        with open(self._filler, "wb") as filler:
            while (free := _free_bytes(self.small_disk) - LEFT_BYTES) > 0:
                with suppress(OSError):  # the bookie took some of it meanwhile: fill what is left now
                    os.posix_fallocate(filler.fileno(), 0, os.fstat(filler.fileno()).st_size + free)

    def make_room(self) -> None:
        self._filler.unlink(missing_ok=True)

    @property
    def _filler(self) -> Path:
        assert self.small_disk is not None
        return self.small_disk / "filler"


def _free_bytes(disk: Path) -> int:
    space = os.statvfs(disk)
    return space.f_bavail * space.f_frsize


@contextmanager
def hosts(count: int, directory: Path, uri: str, options: tuple[str, ...]) -> Iterator[list[Host]]:
    """Bookies that serve, each under its name; stopped when the block ends."""
    with _small_disk(directory / "small") as small:
        made = [_host(n, directory, uri, options, small if n == count else None) for n in range(1, count + 1)]
        try:
            for one in made:
                one.bookie.format()
                one.bookie.launch()
            for one in made:
                one.bookie.await_ready()
            yield made
        finally:
            for one in made:
                one.bookie.stop()


@asynccontextmanager
async def proxied(made: list[Host]) -> AsyncIterator[None]:
    """Inside, clients reach them."""
    async with AsyncExitStack() as stack:
        for one in made:
            port = one.bookie.port
            one.proxy = await stack.enter_async_context(Proxy(port, host=one.proxied_host, own_port=port))
        yield


def _host(n: int, directory: Path, uri: str, options: tuple[str, ...], small: Path | None) -> Host:
    name, proxied_host = f"bookie-{n}", f"127.0.0.{n + 1}"
    own = (f"--advertise={proxied_host}", *options)
    bookie = BookieProcess(name, (small or directory) / name, uri, lease_seconds=3, options=own)
    return Host(bookie, proxied_host, small)


@contextmanager
def _small_disk(path: Path) -> Iterator[Path | None]:
    """None where nobody may mount one."""
    path.mkdir()
    mounted = (
        os.geteuid() == 0
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK_MIB}m", "none", str(path)],
            capture_output=True,
            check=False,
        ).returncode
    )
    try:
        yield path if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(path)], check=True)
