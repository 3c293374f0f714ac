"""What HTTP takes of a daemon's event loop is bounded: who asks for more waits, and probes do not wait for others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from bookledger.admin.http import loop_share
from bookledger.admin.http.config import HttpConfig
from bookledger.admin.http.loop_share import _Timed
from bookledger.admin.http.problems import PROBLEM_TYPE
from bookledger.admin.http.server import serving_http
from bookledger.admin.http_content import HttpContent

BUSY_SECONDS = 0.05


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine everything takes longer."""
    monkeypatch.setattr(loop_share, "WAIT_SECONDS_MAX", 60.0)


def busy(seconds: float) -> None:
    """Takes the processor for so long."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


async def costly(_: web.Request) -> web.Response:
    busy(BUSY_SECONDS)
    return web.Response(text="x")


@asynccontextmanager
async def answering(share: float) -> AsyncIterator[tuple[str, aiohttp.ClientSession]]:
    routes = [web.get("/costly", costly), web.get("/getJournal", costly)]
    content = HttpContent(CollectorRegistry(), list, routes)
    config = HttpConfig(loop_share=share)
    async with (
        serving_http("127.0.0.1", 0, content, config=config) as address,
        aiohttp.ClientSession(f"http://{address}") as session,
    ):
        yield address, session


async def ask(session: aiohttp.ClientSession, path: str) -> None:
    async with session.get(path) as answer:
        assert answer.status == 200
        await answer.read()


async def test_who_asks_for_much_waits_until_the_loop_has_had_its_time_for_others() -> None:
    share, count = 0.5, 30
    async with answering(share) as (_, session):
        began = time.monotonic()
        await asyncio.gather(*(ask(session, "/costly") for _ in range(count)))
        took = time.monotonic() - began
    of_others = share * 0.8  # what probes leave
    burst, last = of_others, BUSY_SECONDS  # a second's worth is saved up; the last is paid afterwards
    assert took >= (count * BUSY_SECONDS - burst - last) / of_others


async def test_probes_do_not_wait_for_those_who_flood_the_other_paths() -> None:
    async with answering(0.05) as (_, session), asyncio.TaskGroup() as group:
        flood = [group.create_task(ask(session, "/costly")) for _ in range(20)]
        await flood[0]
        for path in ("/healthz", "/readyz"):
            await ask(session, path)
        assert not all(task.done() for task in flood), "they are at it still"
        for task in flood:
            task.cancel()


async def test_one_who_floods_does_not_keep_others_from_their_turn() -> None:
    async with answering(0.2) as (_, session):
        flood = [asyncio.create_task(ask(session, "/costly")) for _ in range(40)]
        await flood[0]
        async with asyncio.timeout(60), aiohttp.ClientSession(session._base_url) as other:
            await ask(other, "/metrics")
        for task in flood:
            task.cancel()
        await asyncio.gather(*flood, return_exceptions=True)


async def test_an_answer_that_waits_for_something_takes_nothing_of_the_loop() -> None:
    async def steps() -> web.StreamResponse:
        busy(BUSY_SECONDS)
        await asyncio.sleep(4 * BUSY_SECONDS)
        busy(BUSY_SECONDS)
        return web.Response(text="x")

    timed = _Timed(steps())
    assert (await timed).status == 200
    assert timed.seconds >= 2 * BUSY_SECONDS

    async def idle() -> web.StreamResponse:
        for _ in range(100):
            await asyncio.sleep(0)
        return web.Response()

    waiting = _Timed(idle())
    disturber = asyncio.create_task(asyncio.to_thread(time.sleep, 0))
    busy_beside = asyncio.get_running_loop().call_soon(busy, BUSY_SECONDS)
    await waiting
    await disturber
    assert busy_beside is not None and waiting.seconds < BUSY_SECONDS


async def test_an_answer_that_is_cancelled_or_fails_does_so_as_without() -> None:
    heard: list[str] = []

    async def endless() -> web.StreamResponse:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            heard.append("cancelled")
            raise
        raise AssertionError

    async def through(answer: _Timed) -> None:
        await answer

    task = asyncio.create_task(through(_Timed(endless())))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert heard == ["cancelled"]

    async def fails() -> web.StreamResponse:
        await asyncio.sleep(0)
        raise ValueError("x")

    with pytest.raises(ValueError, match=r"^x$"):
        await _Timed(fails())


async def test_a_request_that_cannot_begin_in_time_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_share, "WAIT_SECONDS_MAX", 0.01)
    async with answering(0.01) as (_, session):  # the first is to be paid for seconds afterwards
        await ask(session, "/costly")
        async with session.get("/costly") as answer:
            assert (answer.status, answer.content_type) == (503, PROBLEM_TYPE)
            assert "could not begin" in (await answer.json(content_type=None))["detail"]
        await ask(session, "/healthz")


async def test_who_does_not_wait_any_more_is_in_nobodys_way() -> None:
    budget = loop_share._Budget(0.5, asyncio.get_running_loop().time)
    budget.rate.spend(0.6)
    waiting = [asyncio.create_task(budget.begin(1000.0)) for _ in range(5)]
    await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    await budget.begin(0.0)


async def test_a_request_whose_client_has_gone_is_given_up() -> None:
    """Otherwise a client that asks and leaves, again and again, has any number of them at work."""
    begun, gone = asyncio.Event(), asyncio.Event()

    async def endless(_: web.Request) -> web.Response:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()
        raise AssertionError

    content = HttpContent(CollectorRegistry(), list, [web.get("/endless", endless)])
    async with serving_http("127.0.0.1", 0, content) as address:
        host, _, port = address.rpartition(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /endless HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        await begun.wait()
        writer.transport.abort()
        await gone.wait()


async def test_what_is_the_daemons_own_business_is_not_held_back() -> None:
    """A NameNode reads segments from a JournalNode, which bounds its transfers."""
    async with answering(0.01) as (_, session):
        began = time.monotonic()
        for _ in range(10):
            await ask(session, "/getJournal")
        took = time.monotonic() - began
        assert took < 10 * BUSY_SECONDS / 0.01 / 2, "held back, it would take twice that, and more"
