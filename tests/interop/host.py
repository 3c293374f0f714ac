"""Serves our journals to Hadoop's tests, which tell it what to do: `python -m tests.interop.host <folder>`.

Lines of JSON come in on standard input and go out on standard output; Hadoop's side is java/interop/JournalHost.java.

    {"id": 1, "do": "start", "name": "jn0", "rpc": 0, "http": 0}    -> {"id": 1, "rpc": 40011, "http": 40012}
    {"id": 2, "do": "draw", "name": "jn0", "journal": "ns1", "directory": "/…"}    -> {"id": 2}
    {"id": 3, "do": "spoil", "name": "jn0", "journal": "ns1", "txid": 7}    -> {"id": 3}
    {"id": 4, "do": "stop", "name": "jn0"}    -> {"id": 4, "error": "…"} where it failed
    <- {"inject": 1, "point": "before"}    answered by {"injected": 1} or {"injected": 1, "error": "…"}

All daemons are in this process, over one SQLite store and one bookie. It ends with its standard input.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import traceback
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from tests.interop.served import Served, serve_journal_node
from tests.interop.shadow import MovedAside
from tests.interop.watched import Point, draw_journal
from tests.support.in_process import InProcessCluster, cluster_of

LINE_BYTES_MAX = 1 << 20
INJECT_SECONDS_MAX = 30.0
"""How long a test may take to say what fault there is."""


class Host:
    """The daemons by their names, over one cluster."""

    def __init__(self, cluster: InProcessCluster) -> None:
        self._cluster = cluster
        self._served: dict[str, tuple[Served, AsyncExitStack]] = {}
        self._aside: dict[str, dict[str, MovedAside]] = {}
        self._injections: dict[int, asyncio.Future[str | None]] = {}
        self._numbers = itertools.count(1)

    async def hear(self, message: dict[str, Any]) -> None:
        """Does what one line asks for, and says how it went."""
        if "injected" in message:
            self._injections.pop(message["injected"]).set_result(message.get("error"))
            return
        try:
            answer = await self._do(message["do"], message)
        except Exception as error:  # whatever it is, the test must hear of it
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        say({"id": message["id"], **answer})

    async def close(self) -> None:
        for name in list(self._served):
            await self._stop(name)

    async def inject(self, point: Point) -> str | None:
        """What Hadoop's fault injector has for this point."""
        number = next(self._numbers)
        heard = self._injections[number] = asyncio.get_running_loop().create_future()
        say({"inject": number, "point": point})
        return await asyncio.wait_for(heard, INJECT_SECONDS_MAX)

    async def _do(self, what: str, message: dict[str, Any]) -> dict[str, Any]:
        name = message["name"]
        match what:
            case "start":
                return await self._start(name, message["rpc"], message["http"])
            case "stop":
                await self._stop(name)
            case "draw":
                await self._draw(name, message["journal"], Path(message["directory"]))
            case "spoil":
                journal = self._served[name][0].journals[message["journal"]]
                journal.spoil(message["txid"])
            case _:
                raise ValueError(f"nobody knows how to {what!r}")
        return {}

    async def _start(self, name: str, rpc: int, http: int) -> dict[str, Any]:
        stack = AsyncExitStack()
        served = await stack.enter_async_context(
            serve_journal_node(
                self._cluster.uri, name, rpc, http, self.inject, self._aside.setdefault(name, {})
            )
        )
        self._served[name] = (served, stack)
        return {"rpc": served.rpc_port, "http": served.http_port}

    async def _stop(self, name: str) -> None:
        _, stack = self._served.pop(name)
        await stack.aclose()

    async def _draw(self, name: str, journal_id: str, directory: Path) -> None:
        found = self._served.get(name)
        running = found[0].journals.get(journal_id) if found is not None else None
        aside = self._aside.get(name, {}).get(journal_id, MovedAside())
        await draw_journal(self._cluster.store, journal_id, name, directory, running, aside)


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


@asynccontextmanager
async def _host(folder: Path) -> AsyncIterator[Host]:
    folder.mkdir(parents=True, exist_ok=True)
    async with cluster_of(folder, bookies=1) as cluster:
        host = Host(cluster)
        try:
            yield host
        finally:
            await host.close()


async def main(folder: Path) -> None:
    """Until standard input ends."""
    reader = asyncio.StreamReader(limit=LINE_BYTES_MAX)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async with _host(folder) as host, asyncio.TaskGroup() as tasks:
        while line := await reader.readline():
            tasks.create_task(host.hear(json.loads(line)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
