"""A port that is closed: whatever was accepted there has somebody to close it."""

from __future__ import annotations

import asyncio
import gc
import socket

from bookie.wire.data import sockets

TURNS = 6
"""In one of so many turns of the loop the connection is accepted, and joined to its server in the next."""


class Accepted(asyncio.Protocol):
    def __init__(self) -> None:
        self.is_made = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.is_made = True
        transport.close()


async def test_a_port_that_is_closed_in_the_turn_in_which_it_accepts_leaves_no_connection_open() -> None:
    """What nobody closes is told by its finaliser, and fails this test."""
    made = []
    for turns in range(TURNS):
        accepted: list[Accepted] = []

        def protocol(accepted: list[Accepted] = accepted) -> Accepted:
            accepted.append(Accepted())
            return accepted[-1]

        listening = sockets.bound("127.0.0.1", 0)
        server = await sockets.listen(listening, protocol)
        with socket.create_connection(listening.getsockname()):
            for _ in range(turns):
                await asyncio.sleep(0)
            await sockets.stop_listening(server)
            made.append(len(accepted))
            assert all(one.is_made for one in accepted)
            gc.collect()
    assert set(made) == {0, 1}, "both are tried: too early, and accepted"
