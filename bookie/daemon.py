"""A bookie process: its parts, the order they start and stop in, its signals.

Start: lock and check the directory, bind the port, register; only then open the index and replay the
log, which may cut its tail, and serve. The lock keeps a second process of this machine away from the
directory; the registration keeps one on any machine away, also where a shared file system does not
share locks (rule M2). Stop (SIGTERM, SIGINT): unregister, stop taking requests, answer what was
accepted, sync, checkpoint, exit 0. A failed log ends the process non-zero with nothing acknowledged
after the failure.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import NoReturn

from metadata import open_store
from metadata.bookie_registry import Registration
from metadata.cluster import Cookie
from metadata.ledger_record import BookieRef
from metadata.ledger_store import LedgerStore
from metadata.store import MetadataStore

from . import directory
from .bookie import Bookie
from .config import BookieConfig
from .directory import LockedDirectory
from .disk import OsDisk
from .index import Index
from .listener import Listener
from .registration import Registrar, lock_identity
from .service import BookieService
from .verifiers import Verifiers


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
    await until_stopped(_serve(config, on_ready), until_stdin_closes=until_stdin_closes)


async def _serve(config: BookieConfig, on_ready: Callable[[RunningBookie], None]) -> None:
    store = await open_store(config.metadata_uri)
    try:
        async with serving(config, store) as running:
            on_ready(running)
            await until_one_fails(running)
    finally:
        await store.close()


async def until_stopped(work: Coroutine[object, object, None], *, until_stdin_closes: bool = False) -> None:
    """Runs `work`, and cancels it at SIGTERM or SIGINT, also while it starts. Raises what `work` raises."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if until_stdin_closes:
        loop.add_reader(sys.stdin.fileno(), _stop_at_end_of_stdin, loop, stop)
    working, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([working, stopped], return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
        working.cancel()
        await asyncio.wait([working])
    if not working.cancelled():
        working.result()


def _stop_at_end_of_stdin(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        loop.remove_reader(sys.stdin.fileno())
        stop.set()


async def until_one_fails(*running: RunningBookie) -> NoReturn:
    """Waits until a bookie's log fails, and raises why; cancelled otherwise."""
    failures = [one.bookie.failed for one in running]
    done, _ = await asyncio.wait(failures, return_when=asyncio.FIRST_COMPLETED)
    raise done.pop().result()


@asynccontextmanager
async def serving(config: BookieConfig, store: MetadataStore) -> AsyncIterator[RunningBookie]:
    """A bookie that serves inside the `async with` block and is stopped cleanly after it."""
    locked = directory.lock(config.data_directory)
    try:
        cookie = await directory.check_cookie(config.data_directory, store)
        directory.check_parts(config.data_directory)
        async with AsyncExitStack() as storage, _listening(config) as listener:
            registration = _registration(config, cookie, listener.address)
            async with _registered(config, store, registration) as registrar:
                bookie = await _open_bookie(config, locked, cookie)
                storage.push_async_callback(bookie.close)  # after the listener has stopped
                verifiers = Verifiers(bookie, LedgerStore(store))
                service = BookieService(bookie, cookie, config.data_directory, program_version(), verifiers)
                listener.serve(bookie, service)
                async with _beside(bookie.run_checkpoints(), bookie.watch_space(registrar.set_read_only)):
                    yield RunningBookie(cookie, listener.address, bookie)
    finally:
        locked.close()


@asynccontextmanager
async def _listening(config: BookieConfig) -> AsyncIterator[Listener]:
    listener = Listener(config)
    try:
        await listener.start()
        yield listener
    finally:
        await listener.stop()


@asynccontextmanager
async def _registered(
    config: BookieConfig, store: MetadataStore, registration: Registration
) -> AsyncIterator[Registrar]:
    """The name is ours inside the block, also while the log is read: the lease is kept beside it."""
    registrar = Registrar(
        store, registration, config.lease_seconds, lock_identity=lock_identity(config.data_directory)
    )
    try:
        await registrar.register()
        async with _beside(registrar.keep()):
            yield registrar
    finally:
        await registrar.unregister()


def _registration(config: BookieConfig, cookie: Cookie, address: str) -> Registration:
    return Registration(BookieRef(cookie.bookie_id, cookie.incarnation), address, config.fault_domain)


async def _open_bookie(config: BookieConfig, locked: LockedDirectory, cookie: Cookie) -> Bookie:
    index = Index(locked.index)
    try:
        return await Bookie.open(config, OsDisk(locked.log), index, cookie.incarnation)
    except BaseException:
        index.close()
        raise


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


def program_version() -> str:
    try:
        return version("bookledger")
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "unknown"
