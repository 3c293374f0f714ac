"""The benchmark's baseline: plain sockets to three receivers that sync each block before they answer."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ..child import Child

BLOCK_BYTES = 1024 * 1024
RECEIVERS = 3
BASELINE_WINDOW = 4

FILE_BYTES_MAX = 1024 * 1024 * 1024
"""A receiver wraps around to the start of its file after this many bytes."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """Throughput of one sender in megabytes (10⁶) per second, and the time until all receivers had written a block to
    disk."""

    mb_per_s: float
    p50_ms: float
    p99_ms: float


def measured(
    directory: Path, seconds: float, *, block_bytes: int = BLOCK_BYTES, window: int = BASELINE_WINDOW
) -> Baseline:
    """Measures one sender and three receivers that write to files. `window`: maximum number of blocks sent but not yet
    answered by all receivers."""
    with ExitStack() as stack:
        children = [
            stack.enter_context(_receiver(directory / f"baseline-{n}", block_bytes)) for n in range(RECEIVERS)
        ]
        sockets = [
            stack.enter_context(socket.create_connection(("127.0.0.1", child.hear()["port"])))
            for child in children
        ]
        for one in sockets:
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        latencies, took = _send_for(sockets, seconds, os.urandom(block_bytes), window)
    latencies.sort()
    return Baseline(
        mb_per_s=len(latencies) * block_bytes / took / 1e6,
        p50_ms=1000 * latencies[len(latencies) // 2],
        p99_ms=1000 * latencies[len(latencies) * 99 // 100],
    )


def _receiver(path: Path, block_bytes: int) -> Child:
    command = ("-m", "bookledger.cli.bench.baseline", str(path), str(block_bytes))
    return Child(command, name="a receiver of the baseline", dies_with_parent=True)


def _send_for(
    sockets: list[socket.socket], seconds: float, block: bytes, window: int
) -> tuple[list[float], float]:
    """Measures the latency of each block, and the total time."""
    clock = time.perf_counter
    began = clock()
    under_way: deque[float] = deque()
    latencies: list[float] = []
    while (now := clock()) < began + seconds or under_way:
        if len(under_way) < window and now < began + seconds:
            for one in sockets:
                one.sendall(block)
            under_way.append(now)
        else:
            for one in sockets:
                if one.recv(1) != b"+":
                    raise OSError("a receiver of the baseline ended")
            latencies.append(clock() - under_way.popleft())
    return latencies, clock() - began


def receive(path: Path, block_bytes: int) -> None:
    """Runs a receiver: writes each block, syncs it, and answers with one byte."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(f'{{"port": {server.getsockname()[1]}}}', flush=True)
        connection, _ = server.accept()
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    buffer = bytearray(block_bytes)
    offset = 0
    with connection:
        while _fill(connection, buffer):
            os.pwrite(fd, buffer, offset)
            os.fdatasync(fd)
            connection.sendall(b"+")
            offset = (offset + block_bytes) % (FILE_BYTES_MAX // block_bytes * block_bytes)
    os.close(fd)
    path.unlink()


def _fill(connection: socket.socket, buffer: bytearray) -> bool:
    view = memoryview(buffer)
    got = 0
    while got < len(buffer):
        received = connection.recv_into(view[got:])
        if received == 0:
            return False
        got += received
    return True


if __name__ == "__main__":
    receive(Path(sys.argv[1]), int(sys.argv[2]))
