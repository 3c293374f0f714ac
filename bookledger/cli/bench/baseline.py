"""The benchmark's baseline: plain sockets to three receivers that sync each block before they answer."""

from __future__ import annotations

import os
import socket
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from ..child import Child

BLOCK_BYTES = 1024 * 1024
RECEIVERS = 3
BASELINE_WINDOW = 4
"""Blocks sent and not answered by all."""

FILE_BYTES_MAX = 1024 * 1024 * 1024
"""A receiver wraps around to the start of its file after so much."""


def baseline_mb_per_s(directory: Path, seconds: float) -> float:
    """Measures the megabytes (10⁶) per second that one sender gets onto three receivers' files."""
    with ExitStack() as stack:
        children = [stack.enter_context(_receiver(directory / f"baseline-{n}")) for n in range(RECEIVERS)]
        sockets = [
            stack.enter_context(socket.create_connection(("127.0.0.1", child.hear()["port"])))
            for child in children
        ]
        blocks, took = _send_for(sockets, seconds)
    return blocks * BLOCK_BYTES / took / 1e6


def _receiver(path: Path) -> Child:
    command = ("-m", "bookledger.cli.bench.baseline", str(path))
    return Child(command, name="a receiver of the baseline", dies_with_parent=True)


def _send_for(sockets: list[socket.socket], seconds: float) -> tuple[int, float]:
    block = os.urandom(BLOCK_BYTES)
    began = time.perf_counter()
    sent = answered = 0
    while time.perf_counter() < began + seconds or answered < sent:
        if sent - answered < BASELINE_WINDOW and time.perf_counter() < began + seconds:
            for one in sockets:
                one.sendall(block)
            sent += 1
        else:
            for one in sockets:
                if one.recv(1) != b"+":
                    raise OSError("a receiver of the baseline ended")
            answered += 1
    return answered, time.perf_counter() - began


def receive(path: Path) -> None:
    """Runs a receiver: writes each block, syncs it, answers with one byte."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(f'{{"port": {server.getsockname()[1]}}}', flush=True)
        connection, _ = server.accept()
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    buffer = bytearray(BLOCK_BYTES)
    offset = 0
    with connection:
        while _fill(connection, buffer):
            os.pwrite(fd, buffer, offset)
            os.fdatasync(fd)
            connection.sendall(b"+")
            offset = (offset + BLOCK_BYTES) % FILE_BYTES_MAX
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
    receive(Path(sys.argv[1]))
