"""A request that the object store refuses for a while is repeated, until the time for it has run out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from ledgers.cold import object_store
from ledgers.cold.errors import ObjectStoreFailed
from ledgers.cold.object_store import Objects


@asynccontextmanager
async def throttling(monkeypatch: pytest.MonkeyPatch, times: int) -> AsyncIterator[Callable[[], int]]:
    """An S3 server that answers SlowDown to the first requests, and then five bytes; gives how many it has had."""
    asked = 0

    async def answer(request: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        if asked <= times:
            return web.Response(status=503, text="<Error><Code>SlowDown</Code></Error>")
        return web.Response(
            status=206,
            body=b"abcde",
            headers={
                "Content-Range": "bytes 0-4/5",
                "ETag": "x",
                "Last-Modified": "Mon, 30 Nov 2026 00:00:00 GMT",
            },
        )

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        monkeypatch.setenv("AWS_ENDPOINT", f"http://127.0.0.1:{runner.addresses[0][1]}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        monkeypatch.setattr(object_store, "BACKOFF_SECONDS_MAX", 0.2)
        yield lambda: asked
    finally:
        await runner.cleanup()


async def test_a_read_goes_on_once_the_store_throttles_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    async with throttling(monkeypatch, times=12) as asked:
        assert bytes(await Objects("s3://bucket").read("object", 0, 5)) == b"abcde"
        assert asked() == 13


async def test_a_store_that_throttles_for_too_long_is_an_error_that_names_object_and_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(object_store, "RETRY_SECONDS_MAX", 0.3)
    async with throttling(monkeypatch, times=10**9) as asked:
        with pytest.raises(ObjectStoreFailed, match=r"s3://bucket/object: it cannot be read: .*503"):
            await Objects("s3://bucket").read("object", 0, 5)
        assert asked() > 1
