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
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import NoReturn

from metadata import open_store
from metadata.records.cluster import Cookie
from metadata.records.ledger_record import BookieRef
from metadata.records.ledger_store import LedgerStore
from metadata.records.registration import Registration
from metadata.store import MetadataStore

from ..config import BookieConfig
from ..disk.disk import OsDisk
from ..disk.space_guard import SpaceGuard
from ..index.index import Index
from ..storage.bookie import Bookie
from ..upkeep.mending.limbo import enter_limbo
from ..upkeep.peers import NoPeers, Peers
from ..upkeep.upkeep import Upkeep
from . import directory, life
from .directory import LockedDirectory
from .life import Lives
from .listener import Listener
from .obeying import obey_orders
from .registration import Registrar, lock_identity
from .requests import Requests
from .restored_metadata import give_no_id_twice
from .service import BookieService, WhoIs
from .verifiers import Verifiers
from .waiting import started

log = logging.getLogger(__name__)

PeersOf = Callable[[MetadataStore], Peers]


def no_peers(store: MetadataStore) -> Peers:
    """For a bookie that stands alone."""
    del store
    return NoPeers()


@dataclass(frozen=True, slots=True)
class RunningBookie:
    """What a caller of `serving` may want to know."""

    cookie: Cookie
    address: str
    bookie: Bookie
    upkeep: Upkeep


async def run(
    config: BookieConfig,
    on_ready: Callable[[RunningBookie], None],
    peers_of: PeersOf = no_peers,
    *,
    until_stdin_closes: bool = False,
) -> None:
    """Serves until SIGTERM or SIGINT, or the end of standard input where that is asked for.

    Metadata that does not answer is waited for. Raises BookieError or MetadataError when it cannot serve, or
    cannot go on.
    """
    await until_stopped(_serve(config, on_ready, peers_of), until_stdin_closes=until_stdin_closes)


async def _serve(config: BookieConfig, on_ready: Callable[[RunningBookie], None], peers_of: PeersOf) -> None:
    async def start(stack: AsyncExitStack) -> RunningBookie:
        store = await open_store(config.metadata_uri)
        stack.push_async_callback(store.close)
        if doubt := (await store.health()).doubt:  # one of an old version is refused
            log.warning("%s", doubt)
        return await stack.enter_async_context(serving(config, store, peers_of))

    async with AsyncExitStack() as stack:
        running = await started(start, stack)
        on_ready(running)
        await until_one_fails(running)


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
async def serving(
    config: BookieConfig, store: MetadataStore, peers_of: PeersOf = no_peers
) -> AsyncIterator[RunningBookie]:
    """A bookie that serves inside the `async with` block and is stopped cleanly after it.

    `peers_of` gives what it mends itself with.
    """
    locked = directory.lock(config.data_directory)
    try:
        cookie = await directory.check_cookie(config.data_directory, store)
        directory.check_parts(config.data_directory)
        async with AsyncExitStack() as storage, _listening(config) as listener:
            registration = _registration(config, cookie, listener.address)
            async with _registered(config, store, registration) as registrar:
                await directory.check_cookie(
                    config.data_directory, store
                )  # it may have been forgotten meanwhile
                lived = await life.look(locked.path, cookie, store)
                bookie = await _open_bookie(config, locked, cookie, lived)
                storage.push_async_callback(_close, bookie)  # after the listener has stopped
                await _vouch_for_nothing_lost(bookie, lived)
                await give_no_id_twice(store, bookie.index.ledger_ids())
                this = await lived.begin(bookie.log_end)
                peers = peers_of(store)
                storage.push_async_callback(peers.close)
                upkeep = Upkeep(bookie, store, cookie, config.upkeep, peers, listener.guard.report)
                listener.serve(bookie, _service(config, bookie, cookie, store, upkeep, listener.who_is))
                watching = bookie.watch_space(lambda space: _tell_space(registrar, space))
                publishing = lived.publish(this, lambda: bookie.log_position)
                obeying = obey_orders(store, cookie.bookie_id, bookie.space, config.upkeep.heal_look_seconds)
                work = (bookie.run_checkpoints(), watching, publishing, obeying, upkeep.run())
                async with _beside(*work):
                    yield RunningBookie(cookie, listener.address, bookie, upkeep)
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


def _tell_space(registrar: Registrar, space: SpaceGuard) -> None:
    registrar.set_disk(space.total_bytes, space.free_bytes)
    registrar.set_read_only(bool(space.why_read_only))


def _registration(config: BookieConfig, cookie: Cookie, address: str) -> Registration:
    bookie = BookieRef(cookie.bookie_id, cookie.incarnation)
    heals = config.upkeep.heals
    return Registration(bookie, address, config.fault_domain, version=program_version(), heals=heals)


async def _open_bookie(config: BookieConfig, locked: LockedDirectory, cookie: Cookie, lived: Lives) -> Bookie:
    """The directory is locked, and its name ours. Raises DataDirectoryError for an older copy that is not accepted."""

    def is_lacking(log_end: int) -> bool:
        if not config.accept_loss:
            lived.refuse_older_copy(log_end)
        return lived.is_older_copy(log_end)

    if not config.accept_loss:
        lived.refuse_older_copy(lived.known.position)  # before the log's tail is cut
    index = Index(locked.index)
    try:
        return await Bookie.open(config, OsDisk(locked.log), index, cookie.incarnation, is_lacking)
    except BaseException:
        index.close()
        raise


async def _close(bookie: Bookie) -> None:
    """Raises LogFailed also where it was the very last sync that failed, or where it is told to stop meanwhile (B1)."""
    try:
        await bookie.close()
    finally:
        if bookie.failed.done():
            raise bookie.failed.result()


async def _vouch_for_nothing_lost(bookie: Bookie, lived: Lives) -> None:
    """All that the bookie may have lost is in limbo when it returns."""
    if bookie.has_lost:
        me = BookieRef(lived.cookie.bookie_id, lived.cookie.incarnation)
        await enter_limbo(bookie, LedgerStore(lived.store), me)


def _service(
    config: BookieConfig,
    bookie: Bookie,
    cookie: Cookie,
    store: MetadataStore,
    upkeep: Upkeep,
    who_is: WhoIs,
) -> BookieService:
    verifiers = Verifiers(bookie, LedgerStore(store))
    requests = Requests(bookie, cookie, config.data_directory, program_version(), verifiers)
    return BookieService(requests, upkeep.maintain, config.limits.maintenance_max, who_is)


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
