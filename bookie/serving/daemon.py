"""The bookie daemon: composes its parts, and starts and stops them in order.

Start: lock and check the directory, bind the port, register; only then open the index, replay the log (which may
truncate its tail), and serve. The lock keeps other processes on this machine out of the directory. The registration
keeps out processes on any machine, even if a shared file system does not share locks (rule M2). Stop (SIGTERM, SIGINT):
unregister, stop accepting requests, answer the accepted ones, sync, checkpoint, exit 0. If the log fails, the process
exits non-zero and acknowledges nothing after the failure.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

from metadata import open_store
from metadata.counting.counting_store import CountingStore
from metadata.counting.health_watch import watch_health
from metadata.records.cluster import Cookie
from metadata.records.ledger_record import BookieRef
from metadata.records.ledger_store import LedgerStore
from metadata.records.registration import Registration
from metadata.store import MetadataStore, renewal_seconds

from ..config import BookieConfig
from ..disk.disk import OsDisk
from ..disk.file_watch import FileIdentities, watch
from ..disk.space_guard import SpaceGuard
from ..index.index import Index
from ..log import segment_files
from ..log_context import LIFE, lines_of
from ..program_version import program_version
from ..storage.bookie import Bookie
from ..upkeep.mending.limbo import enter_limbo
from ..upkeep.repair_client import NoPeers, Peers
from ..upkeep.upkeep import Upkeep
from ..wire.credentials import BookieKey
from ..wire.data.in_process import OwnBookie
from ..wire.trust.identity import Identity
from ..wire.trust.roles import Role
from . import directory
from .bookie_findings import BookieFindings
from .bookie_registration import Registrar, lock_identity
from .cookie_check import check_cookie
from .directory import LockedDirectory
from .grpc_tools import GrpcTools
from .history import directory_generation
from .history.directory_generation import Lives
from .history.metadata_watch import MetadataWatch, StoreComparison
from .listener import Listener
from .lookups.owners import Owners
from .lookups.registered_keys import RegisteredKeys
from .lookups.verifiers import Verifiers
from .operator_request_polling import obey_operator_requests
from .preflight import check_clock, check_keeps_writes
from .request_processor import RequestProcessor
from .service import BookieService, WhoIs
from .serving_metrics import Lookups
from .start_retries import started
from .stopping import until_stopped

log = logging.getLogger(__name__)

PeersOf = Callable[[MetadataStore, BookieKey], Peers]
"""Creates the client that a bookie uses to repair itself from other bookies; the key authenticates the client's reads.
"""


def no_peers(store: MetadataStore, key: BookieKey) -> Peers:
    """Returns the peers of a bookie that has no other bookies to repair itself from."""
    del store, key
    return NoPeers()


@dataclass(frozen=True, slots=True)
class RunningBookie:
    """Parts of a running bookie that callers of `serving` use."""

    cookie: Cookie
    address: str
    bookie: Bookie
    upkeep: Upkeep
    registrar: Registrar
    health: BookieFindings
    own: OwnBookie
    """Connects clients in the bookie's own process to the bookie."""


Work = Callable[[RunningBookie], Coroutine[object, object, None]]
"""A task that runs while a bookie is serving, and ends before the bookie stops."""


async def run(
    config: BookieConfig,
    on_ready: Callable[[RunningBookie], None],
    peers_of: PeersOf = no_peers,
    *,
    beside: Sequence[Work] = (),
    on_stop: Callable[[], None] = lambda: None,
    until_stdin_closes: bool = False,
) -> None:
    """Serves until SIGTERM or SIGINT arrives or, with `until_stdin_closes`, until standard input ends.

    Calls `on_stop` when the bookie begins to stop, whatever the reason. Waits while the metadata does not answer.
    Raises BookieError or MetadataError if the bookie cannot serve, or cannot continue.
    """
    work = _serve(config, on_ready, peers_of, beside)
    await until_stopped(work, on_stop=on_stop, until_stdin_closes=until_stdin_closes)


async def _serve(
    config: BookieConfig, on_ready: Callable[[RunningBookie], None], peers_of: PeersOf, beside: Sequence[Work]
) -> None:
    async def start(stack: AsyncExitStack) -> RunningBookie:
        store = await open_store(config.metadata_uri)
        stack.push_async_callback(store.close)
        await check_keeps_writes(store, accept_unsafe=config.accept_unsafe_etcd)
        return await stack.enter_async_context(serving(config, store, peers_of))

    async with AsyncExitStack() as stack:
        running = await started(start, stack)
        on_ready(running)
        async with _beside(*(work(running) for work in beside)):
            await until_one_fails(running)


async def until_one_fails(*running: RunningBookie) -> NoReturn:
    """Waits until the log of any of these bookies fails, then raises that log's error."""
    failures = [one.bookie.failed for one in running]
    done, _ = await asyncio.wait(failures, return_when=asyncio.FIRST_COMPLETED)
    raise done.pop().result()


@asynccontextmanager
async def serving(
    config: BookieConfig, store: MetadataStore, peers_of: PeersOf = no_peers
) -> AsyncIterator[RunningBookie]:
    """Serves a bookie inside the `async with` block, and stops it cleanly afterwards.

    `peers_of` creates the client that the bookie uses to repair itself from other bookies.
    """
    async with AsyncExitStack() as stack:
        with lines_of(directory.name_in(config.data_directory)):
            running = await stack.enter_async_context(_serving(config, store, peers_of))
        yield running


@asynccontextmanager
async def _serving(
    config: BookieConfig, store: MetadataStore, peers_of: PeersOf
) -> AsyncIterator[RunningBookie]:
    began = time.monotonic()
    check_clock()
    store = CountingStore(store)
    with closing(directory.lock(config.data_directory)) as locked:
        cookie = await check_cookie(config.data_directory, store)
        directory.check_parts(config.data_directory)
        async with AsyncExitStack() as storage, _listening(config) as listener:
            key = BookieKey()
            registration = _registration(config, cookie, listener.address, key)
            remembered = await directory_generation.look(locked.path, cookie, store)
            # If the metadata was rolled back, the cluster stays on hold until an operator accepts the older copy.
            await StoreComparison(store, remembered).check_rollback()
            async with _registered(config, store, registration) as registrar:
                # Checked again, because the cookie may have been removed since the first check.
                await check_cookie(config.data_directory, store)
                lived = await directory_generation.look(locked.path, cookie, store)
                lived.registered_as = lambda: registrar.registration
                bookie = await _open_bookie(config, locked, cookie, lived)
                storage.push_async_callback(_close, bookie)  # called after the listener has stopped
                watch = MetadataWatch(store, bookie, lived, config.lease_seconds)
                await _vouch_for_nothing_lost(bookie, lived)
                await watch.begin(bookie.replayed.log_end)
                peers = peers_of(store, key)
                storage.push_async_callback(peers.close)
                about = bookie, store, cookie, config.upkeep, peers, listener.guard.report
                upkeep = Upkeep(*about, returned=lived.returned)
                health = BookieFindings(bookie, registrar, store, upkeep.scrubber, listener.why_distrusted)
                tools = GrpcTools(listener.who_is, health.why_not_ready)
                service = _service(config, bookie, cookie, watch, store, upkeep, listener.who_is)
                listener.serve(bookie, service, *tools.handlers())
                # Created before the other coroutines, because it raises an error if the directory is gone; coroutines
                # that already existed would then never be awaited.
                intact = _watch_files(locked, bookie)
                watching = bookie.watch_space(lambda space: _publish_space(registrar, space))
                obeying = obey_operator_requests(store, cookie.bookie_id, bookie.space)
                renewing = watch.run(renewal_seconds(config.lease_seconds), lambda: bookie.log_position)
                work = bookie.run_checkpoints(), watching, obeying, upkeep.run(), intact, renewing
                async with _beside(*work, watch_health(store), health.publish()):
                    own = _own(cookie, listener)
                    running = RunningBookie(cookie, listener.address, bookie, upkeep, registrar, health, own)
                    bookie.metrics.registry.register(
                        Lookups(bookie, upkeep, registrar, listener, store.counts, cookie, program_version())
                    )
                    with _logging_life(running, config, time.monotonic() - began):
                        yield running


@contextmanager
def _logging_life(running: RunningBookie, config: BookieConfig, seconds: float) -> Iterator[None]:
    """Logs the bookie's start and stop."""
    cookie, about = running.cookie, {"bookie": running.cookie.bookie_id}
    bookie = running.bookie
    LIFE.info(
        "serving: version %s on %s, incarnation %s of cluster %s, data in %s; started in %.1f s and replayed %d "
        "records (%d bytes) of the log",
        program_version(),
        running.address,
        cookie.incarnation,
        cookie.cluster_id,
        config.data_directory,
        seconds,
        bookie.replayed.records,
        bookie.replayed.size_bytes,
        extra=about,
    )
    began = time.monotonic()
    try:
        yield
    finally:
        stored, seconds = bookie.metrics.counters.entries_added, time.monotonic() - began
        why = f"because {bookie.failed.result()}" if bookie.failed.done() else "as requested"
        LIFE.info(
            "stopping %s; served for %.0f s and stored %d entries",
            why,
            seconds,
            stored,
            extra=about,
        )


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
    """Holds the registration of the bookie's name inside the block and renews its lease, even while the log is being
    replayed."""
    registrar = Registrar(
        store, registration, config.lease_seconds, lock_identity=lock_identity(config.data_directory)
    )
    try:
        await registrar.take()
        async with _beside(registrar.keep()):
            yield registrar
    finally:
        await registrar.give_up()


def _publish_space(registrar: Registrar, space: SpaceGuard) -> None:
    registrar.set_disk(space.total_bytes, space.free_bytes)
    registrar.set_read_only(bool(space.why_read_only))


def _registration(config: BookieConfig, cookie: Cookie, address: str, key: BookieKey) -> Registration:
    bookie = BookieRef(cookie.bookie_id, cookie.incarnation)
    heals = config.upkeep.heals
    return Registration(
        bookie,
        address,
        config.fault_domain,
        version=program_version(),
        heals=heals,
        reading_key=key.verifier,
    )


def _own(cookie: Cookie, listener: Listener) -> OwnBookie:
    who = Identity(Role.BOOKIE, cookie.bookie_id)
    bookie = BookieRef(cookie.bookie_id, cookie.incarnation)
    return OwnBookie(bookie, listener.address, partial(listener.join, who))


def _kind_of(config: BookieConfig) -> type[Bookie]:
    """Returns the bookie's class; imports OpenTelemetry only if tracing is configured."""
    if config.tracing is None:
        return Bookie
    from ..storage.traced_bookie import TracedBookie

    return TracedBookie


async def _open_bookie(config: BookieConfig, locked: LockedDirectory, cookie: Cookie, lived: Lives) -> Bookie:
    """Opens the index and the log. The directory must be locked and the name registered. Raises DataDirectoryError if
    the directory is an older copy."""

    def is_lacking(log_end: int) -> bool:
        if not config.accept_loss:
            lived.refuse_older_copy(log_end)
        return lived.is_older_copy(log_end)

    if not config.accept_loss:
        lived.refuse_older_copy(lived.known.position)  # before replay can truncate the log
    index = Index(locked.index, config.index_bytes_max)
    try:
        kind = _kind_of(config)
        return await kind.open(config, OsDisk(locked.log), index, cookie.incarnation, is_lacking)
    except BaseException:
        index.close()
        raise


async def _close(bookie: Bookie) -> None:
    """Closes the bookie. Raises LogFailed if the log has failed, even if only the last sync failed or this call was
    cancelled (rule B1)."""
    try:
        await bookie.close()
    finally:
        if bookie.failed.done():
            raise bookie.failed.result()


async def _vouch_for_nothing_lost(bookie: Bookie, lived: Lives) -> None:
    """Puts into limbo every ledger whose entries or fence the bookie may have lost."""
    if bookie.has_lost:
        me = BookieRef(lived.cookie.bookie_id, lived.cookie.incarnation)
        await enter_limbo(bookie, LedgerStore(lived.store), me)


def _watch_files(locked: LockedDirectory, bookie: Bookie) -> Coroutine[object, object, None]:
    intact, open_segment = FileIdentities(locked.lasting_paths()), partial(_open_segment, locked, bookie)
    return watch(intact, bookie.disk, open_segment, bookie.fail)


def _open_segment(locked: LockedDirectory, bookie: Bookie) -> Path:
    return locked.log / segment_files.name_of(bookie.log_position >> 32)


def _service(
    config: BookieConfig,
    bookie: Bookie,
    cookie: Cookie,
    watch: MetadataWatch,
    store: MetadataStore,
    upkeep: Upkeep,
    who_is: WhoIs,
) -> BookieService:
    ledgers = LedgerStore(store)
    known = Verifiers(bookie, ledgers, watch.saw_older), RegisteredKeys(store), Owners(ledgers)
    about = cookie, config.data_directory, program_version()
    requests = RequestProcessor(bookie, *about, *known, vouched_since=watch.vouched_since)
    return BookieService(requests, upkeep.maintain, who_is)


@asynccontextmanager
async def _beside(*work: Coroutine[object, object, None]) -> AsyncIterator[None]:
    """Runs coroutines concurrently with the block. Cancels the block if one of them fails, and cancels them when the
    block ends."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
    except BaseExceptionGroup as failed:  # callers get the error itself, not an exception group
        raise failed.exceptions[0] from None
