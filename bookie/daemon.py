"""A bookie process: its parts, the order they start and stop in, its signals.

Start: lock and check the directory, replay the log, bind the port, register. Stop (SIGTERM,
SIGINT): unregister, stop taking requests, answer what was accepted, sync, checkpoint, exit 0. A
failed log ends the process non-zero with nothing acknowledged after the failure.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import grpc.aio

from metadata import open_store
from metadata.bookie_registry import Registration
from metadata.cluster import Cookie
from metadata.ledger_record import BookieRef
from metadata.store import MetadataStore

from . import directory
from .bookie import Bookie
from .config import BookieConfig
from .disk import OsDisk
from .errors import BookieError
from .index import Index
from .registration import Registrar
from .service import BookieService
from .wire import rpc

log = logging.getLogger(__name__)

STOP_SECONDS_MAX = 10.0
"""How long open calls may take to end when the bookie stops."""


@dataclass(frozen=True, slots=True)
class RunningBookie:
    """What a caller of `serving` may want to know."""

    cookie: Cookie
    address: str
    bookie: Bookie


async def run(
    config: BookieConfig, on_ready: Callable[[RunningBookie], None], *, until_stdin_closes: bool = False
) -> None:
    """Serves until SIGTERM or SIGINT, or the end of standard input where that is asked for.

    Raises BookieError or MetadataError when it cannot serve, or cannot go on.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if until_stdin_closes:
        loop.add_reader(sys.stdin.fileno(), _stop_at_end_of_stdin, loop, stop)
    store = await open_store(config.metadata_uri)
    try:
        async with serving(config, store) as running:
            on_ready(running)
            await _until_stopped_or_failed(stop, running.bookie)
    finally:
        await store.close()


def _stop_at_end_of_stdin(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        loop.remove_reader(sys.stdin.fileno())
        stop.set()


async def _until_stopped_or_failed(stop: asyncio.Event, bookie: Bookie) -> None:
    stopped = asyncio.ensure_future(stop.wait())
    either: tuple[asyncio.Future[Any], ...] = (stopped, bookie.failed)
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
    if bookie.failed.done():
        raise bookie.failed.result()


@asynccontextmanager
async def serving(config: BookieConfig, store: MetadataStore) -> AsyncIterator[RunningBookie]:
    """A bookie that serves inside the `async with` block and is stopped cleanly after it."""
    locked = directory.lock(config.data_directory)
    try:
        cookie = await directory.check_cookie(config.data_directory, store)
        directory.check_parts(config.data_directory)
        index = Index(locked.index)
        try:
            bookie = await Bookie.open(config, OsDisk(locked.log), index, cookie.incarnation)
        except BaseException:
            index.close()
            raise
        try:
            async with _registered_server(config, store, cookie, bookie) as address:
                yield RunningBookie(cookie, address, bookie)
        finally:
            await bookie.close()
    finally:
        locked.close()


@asynccontextmanager
async def _registered_server(
    config: BookieConfig, store: MetadataStore, cookie: Cookie, bookie: Bookie
) -> AsyncIterator[str]:
    service = BookieService(bookie, cookie, config.data_directory, program_version())
    server = grpc.aio.server(options=rpc.SERVER_OPTIONS)
    server.add_generic_rpc_handlers((service.handlers(),))
    port = _bind(server, config)
    await server.start()
    address = f"{config.advertised_host or config.host}:{port}"
    registrar = Registrar(store, _registration(config, cookie, address), config.lease_seconds)
    try:
        await registrar.register()
        async with _beside(registrar.keep(), bookie.run_checkpoints()):
            yield address
    finally:
        await registrar.unregister()
        service.stop()
        # After a failed log nothing that waits will be answered: end at once (B1).
        await server.stop(0 if bookie.failed.done() else STOP_SECONDS_MAX)


@asynccontextmanager
async def _beside(*work: Coroutine[object, object, None]) -> AsyncIterator[None]:
    """Runs coroutines beside the block; the block is cancelled when one fails, they are when it ends."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
    except BaseExceptionGroup as failed:  # callers are told what went wrong, not how it came to light
        raise failed.exceptions[0] from None


def _registration(config: BookieConfig, cookie: Cookie, address: str) -> Registration:
    return Registration(BookieRef(cookie.bookie_id, cookie.incarnation), address, config.fault_domain)


def _bind(server: grpc.aio.Server, config: BookieConfig) -> int:
    address = f"{config.host}:{config.port}"
    try:
        # gRPC only says that it failed; a plain socket says why.
        with socket.create_server((config.host, config.port)):
            pass
        return server.add_insecure_port(address)
    except (OSError, RuntimeError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise BookieError(
            f"cannot listen on {address}: {why}; choose another with --host or --port"
        ) from error


def program_version() -> str:
    try:
        return version("bookledger")
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "unknown"
