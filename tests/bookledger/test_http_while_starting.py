"""A bookie's HTTP port while it reads its log: alive, and not ready."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bookie.storage.replaying import replay_log
from bookledger.admin.bookies import STARTING, Bookies
from bookledger.admin.http.server import serving_http
from metadata.memory_store import MemoryStore
from tests.bookie.serving.served import formatted, serve_until

HANG_SECONDS_MAX = 60.0


async def ask(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text()


async def test_a_bookie_that_reads_its_log_is_alive_and_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long that takes: a probe that were not answered would have it killed, to begin again."""
    begun, go_on = threading.Event(), threading.Event()

    def slowly(*arguments: Any) -> Any:
        begun.set()
        assert go_on.wait(HANG_SECONDS_MAX)
        return replay_log(*arguments)

    monkeypatch.setattr("bookie.storage.bookie.replay_log", slowly)
    store, bookies, stop = MemoryStore(), Bookies(1), asyncio.Event()
    config = await formatted(tmp_path, store)
    ready = asyncio.get_running_loop().create_future()
    async with serving_http("127.0.0.1", 0, bookies.http_content()) as address:
        serving = asyncio.create_task(serve_until(config, store, ready, stop))
        assert await asyncio.to_thread(begun.wait, HANG_SECONDS_MAX)
        assert await ask(f"http://{address}/healthz") == (200, "ok\n")
        status, why = await ask(f"http://{address}/readyz")
        assert (status, json.loads(why)["detail"]) == (503, STARTING)
        status, told = await ask(f"http://{address}/metrics")
        assert status == 200 and "process_resident_memory_bytes" in told
        go_on.set()
        bookies.has_started(await ready)
        assert await ask(f"http://{address}/readyz") == (200, "ok\n")
        assert 'fact="registered"' in (await ask(f"http://{address}/metrics"))[1]
        stop.set()
        await serving
