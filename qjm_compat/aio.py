"""The journal manager for asyncio: Hadoop's JournalManager interface, on ledgers or JournalNodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Self

from ledgers import ClientConfig, ClientForked
from ledgers.writing.slow_wait_warning import warn_when_slow
from metadata import keys
from metadata.audit import Act, record_audit
from metadata.fork_safety.fork_guard import ForkGuard
from metadata.rate_limit import RateLimit

from .acceptor.journal import Journal
from .batch import Batch
from .config import AcceptorConfig, JournalConfig
from .edits import EditOp
from .errors import BadJournalState, BadRequest, RuleViolated
from .formatting import Formatted, Formatting
from .hadoop.client.qjournal_uri import SCHEME, parse
from .manager.follower import Follower
from .manager.input_stream import EditLogInputStream
from .manager.loggers import LoggerSet
from .manager.output_stream import EditLogOutputStream
from .manager.proposer import Proposer
from .manager.proposer_effects import Need
from .manager.quorum_call import wait_for
from .manager.segments_seen import check_no_gap, readable_segments, segments_seen
from .opening import OpenAcceptors
from .requests import GetEditLogManifest, GetStorageInfo, NamespaceInfo, PurgeLogs, SegmentState
from .sync.background import BackgroundSync
from .sync.syncer import JournalSyncer, Synced

if TYPE_CHECKING:
    from .acceptor.unavailable_acceptor import AbsentAcceptor
    from .hadoop.client.acceptor import RemoteAcceptor

DEFAULT_ACCEPTOR = "main"
"""The name of a journal's only acceptor if no acceptors are named. The ledgers of this acceptor replicate the journal's
segments."""

PURGE_SECONDS_MAX = 10.0
"""How long `close` waits for a running purge."""


class QuorumJournalManager:
    """A journal. To write to it, become its writer with `recover_unfinalized_segments`; reading needs no preparation.

    With one acceptor, the default, the ledgers replicate every edit and the metadata stores the promises. With several
    `acceptors`, each acceptor has its own ledgers, and a majority of the acceptors decides. Use as `async with`;
    belongs to the event loop on which it is opened. Every writer gets a higher epoch than the previous writer, whose
    later calls are refused with StaleEpoch.

    For a journal on JournalNodes, either Hadoop's own or ours, pass `qjournal://h1:8485;h2:8485;h3:8485/ns1` instead of
    a metadata URI. Hadoop's own do not report the namespace of the edits they hold, so pass `namespace` to write to
    them.
    """

    def __init__(
        self,
        metadata_uri: str,
        journal_id: str | None = None,
        *,
        namespace: NamespaceInfo | None = None,
        acceptors: Sequence[AcceptorConfig] | None = None,
        config: JournalConfig | None = None,
        client_config: ClientConfig | None = None,
    ) -> None:
        self._addresses: tuple[str, ...] = ()
        if metadata_uri.startswith(SCHEME):
            if journal_id is not None or acceptors is not None:
                raise BadRequest("a qjournal:// URI already contains the journal and its acceptors")
            self._addresses, journal_id = parse(metadata_uri)
        try:
            self.journal_id = keys.check_name(journal_id or "")
        except ValueError as error:
            raise BadRequest(f"bad journal id: {error}") from error
        try:
            for acceptor in acceptors or ():
                keys.check_name(acceptor.name)
        except ValueError as error:
            raise BadRequest(f"bad acceptor name: {error}") from error
        self.config = config or JournalConfig()
        remote = [AcceptorConfig(address, metadata_uri) for address in self._addresses]
        self._acceptors = tuple(acceptors or remote or (AcceptorConfig(DEFAULT_ACCEPTOR, metadata_uri),))
        if len({a.name for a in self._acceptors}) != len(self._acceptors):
            raise BadRequest("two acceptors have the same name")
        self._namespace = namespace
        self._client_config = client_config
        self._home = ForkGuard(ClientForked)
        self._opened = OpenAcceptors(self.journal_id, self._acceptors, self.config, client_config)
        self._loggers: LoggerSet | None = None
        self._proposer = Proposer(tuple(a.name for a in self._acceptors), self.config)
        self._stream: EditLogOutputStream | None = None
        self._purges: dict[asyncio.Future[None], str] = {}
        self._syncing: BackgroundSync | None = None

    # --- opening and closing ------------------------------------------------------------------------------

    async def connect(self) -> None:
        """Opens ledgers and metadata; `async with` calls it. Raises JournalUnavailable, or LedgerError for an invalid
        URI."""
        if self._loggers is not None:
            return
        if self._addresses:
            self._opened.open_remote(self._addresses)
        else:
            await self._opened.open()
        self._loggers = LoggerSet(tuple(self._journals.values()), self.config)

    async def close(self) -> None:
        """Closes the journal. If a segment is not finalized, the next writer finalizes it. Safe to repeat.

        Does nothing in a forked process, because the journal belongs to the parent process.
        """
        if not self._home.is_here:
            return
        with warn_when_slow(self._why_closing_waits):
            if self._syncing is not None:
                await self._syncing.close()
            if self._purges:
                await asyncio.wait(self._purges, timeout=PURGE_SECONDS_MAX)
            if self._stream is not None:
                await self._stream.abort()
            if self._loggers is not None:
                await self._loggers.close()
            self._loggers = None
            await self._opened.close()

    async def __aenter__(self) -> Self:
        try:
            await self.connect()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    # --- the whole journal -----------------------------------------------------------------------------------

    async def format(self, namespace: NamespaceInfo, *, force: bool = False) -> Formatted:
        """Formats the journal at every acceptor. Raises QuorumFailed if every acceptor already has the journal.

        If only some acceptors have the journal, and have it for this namespace, the others are formatted to join them,
        and the existing contents are kept. Raises BadJournalState, without changing anything, if a majority could then
        lack acknowledged edits. Raises HalfFormatted, listing the acceptors that were formatted, if others failed;
        repeating the call formats the rest. `force` discards the acceptors' contents, even if they cannot be fenced;
        stop the journal's writer first.
        """
        work = Formatting(self.journal_id, self._set, self._proposer, self._opened)
        done = await work.run(namespace, force=force)
        self._namespace = done.namespace
        return done

    async def sync(
        self, *, bytes_per_second: float | None = None, on_bytes: Callable[[int], None] = lambda _: None
    ) -> Synced:
        """Copies finalized segments to those acceptors on ledgers that lack them. Returns the work that was done and
        what remains.

        A writer in any process may continue during the copying. JournalNodes sync on their own. For each part copied,
        `on_bytes` is called with its number of bytes, on the client's event loop.
        """
        pace = RateLimit(bytes_per_second or self.config.sync_bytes_per_second).keep
        return await JournalSyncer(self._opened.on_ledgers, pace, on_bytes=on_bytes).until_done()

    async def is_formatted(self) -> bool:
        """Returns whether any acceptor has the journal. Fails unless every acceptor answers."""
        return await self._set.run(self._proposer.is_formatted())

    async def do_pre_upgrade(self) -> None:
        """Saves the state, as the first step of an upgrade. The journal cannot be written to until the second step."""
        await self._set.run(self._proposer.do_pre_upgrade())

    async def do_upgrade(self, namespace: NamespaceInfo) -> None:
        """Continues the journal with this namespace's layout and creation time, as the second step of an upgrade."""
        await self._set.run(self._proposer.do_upgrade(namespace))
        self._namespace = namespace

    async def do_finalize(self) -> None:
        """Finalizes an upgrade: it can no longer be rolled back."""
        await self._set.run(self._proposer.do_finalize())

    async def can_roll_back(self, target_layout_version: int) -> bool:
        """Returns whether there is a state with this layout to roll back to."""
        return await self._set.run(self._proposer.can_roll_back(target_layout_version))

    async def do_rollback(self) -> None:
        """Restores the state before the upgrade."""
        await self._set.run(self._proposer.do_rollback())

    async def discard_segments(self, start_txid: int) -> None:
        """Drops every segment from a txid on. After this, a new manager must become the writer.

        If a dropped ledger cannot be fenced because its bookies are unavailable, this call continues anyway: the
        ledger's writer may get edits acknowledged until it next calls an acceptor, and these edits are lost. Stop the
        writer first. Raises BadJournalState if the txid lies inside a segment.
        """
        seconds_max = self.config.operations_seconds_max
        # Requests all segments, because one that supersedes others may begin long before `start_txid`.
        request = GetEditLogManifest(0, in_progress_ok=True)
        # An acceptor with an unreadable segment is ignored: this call may be meant to discard that segment.
        answers = await self._set.ask("getEditLogManifest", request, Need.ALL, seconds_max)
        for segment in segments_seen(answers.replies, self._set.acceptors.majority, only_durable=False):
            if segment.first_txid < start_txid <= segment.last_txid:
                raise BadJournalState(
                    f"Cannot discard segments from txid {start_txid} on: it lies inside segment "
                    f"{segment.first_txid}-{segment.last_txid}"
                )
        await self._set.run(self._proposer.discard_segments(start_txid))

    async def get_journal_c_time(self) -> int:
        """Returns the journal's creation time."""
        return await self._set.run(self._proposer.get_journal_c_time())

    async def namespace(self) -> NamespaceInfo:
        """Returns the namespace of the journal's edits: the one passed to the manager, or the one that a majority of
        the acceptors reports."""
        if self._namespace is None:
            ask = self._set.acceptors.ask(
                "getStorageInfo", GetStorageInfo(), Need.MAJORITY, self.config.takeover_seconds_max
            )
            stored = set((await self._set.run(ask)).values())
            if len(stored) != 1:
                raise RuleViolated(f"the acceptors do not agree on the namespace: {stored}")
            self._namespace = NamespaceInfo.of(stored.pop())
        return self._namespace

    # --- writing ------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int | None:
        """This writer's epoch; None until it has one."""
        return self._proposer.epoch

    async def recover_unfinalized_segments(self) -> SegmentState | None:
        """Becomes the writer and finalizes the segment that the last writer left open; returns the segment, if there
        was one.

        Allowed only once: if a manager loses the journal, close it and create another one. Raises QuorumFailed.
        """
        steps = self._proposer.recover_unfinalized_segments(await self.namespace())
        recovered = await self._set.run(steps)
        record_audit(Act.EPOCH, journal=self.journal_id, epoch=self.epoch)
        self._keep_up_to_date()
        return recovered

    async def create_new_unique_epoch(self) -> int:
        """Performs the first half of becoming the writer: fences all earlier writers, but recovers nothing."""
        await self._set.run(self._proposer.create_new_unique_epoch(await self.namespace()))
        assert self.epoch is not None
        record_audit(Act.EPOCH, journal=self.journal_id, epoch=self.epoch)
        return self.epoch

    async def start_log_segment(
        self, first_txid: int, layout_version: int | None = None
    ) -> EditLogOutputStream:
        """Begins a segment and returns its output stream. Raises QuorumFailed, or BadJournalState if called before
        recovery."""
        if self._stream is not None:
            raise BadJournalState(f"segment {self._stream.first_txid} is still being written")
        layout = layout_version if layout_version is not None else (await self.namespace()).layout_version
        await self._set.run(self._proposer.start_log_segment(first_txid, layout))
        self._stream = EditLogOutputStream(self._set, first_txid, layout, self._ended)
        return self._stream

    async def finalize_log_segment(self, first_txid: int, last_txid: int) -> None:
        """Finalizes a segment at a majority of the acceptors, after which its end can no longer change. Raises
        QuorumFailed."""
        await self._set.run(self._proposer.finalize_log_segment(first_txid, last_txid))

    def purge_logs_older_than(self, min_txid_to_keep: int) -> None:
        """Deletes segments that end before a txid. Returns at once; the next purge retries failed deletions."""
        self._purge(min_txid_to_keep)

    async def purge(self, min_txid_to_keep: int) -> None:
        """Like `purge_logs_older_than`, but waits until a majority has finished. Raises QuorumFailed."""
        seconds_max = self.config.operations_seconds_max
        answers = await wait_for("purgeLogs", self._purge(min_txid_to_keep), Need.MAJORITY, seconds_max)
        self._set.acceptors.check("purgeLogs", answers, Need.MAJORITY, seconds_max)

    def _purge(self, min_txid_to_keep: int) -> list[asyncio.Future[None]]:
        """Starts a purge at all acceptors. `close` waits for those that are slower than the majority."""
        calls = self._set.calls(PurgeLogs(min_txid_to_keep=min_txid_to_keep))
        for call, logger in zip(calls, self._set.loggers, strict=True):
            self._purges[call] = logger.name
            call.add_done_callback(self._purges.pop)
        return calls

    # --- reading ------------------------------------------------------------------------------------------

    async def select_input_streams(
        self,
        from_txid: int = 0,
        *,
        in_progress_ok: bool = False,
        only_durable: bool = True,
        gaps_ok: bool = False,
    ) -> list[EditLogInputStream]:
        """Returns input streams of the segments that contain `from_txid` or later edits, in order, to be read one after
        the other.

        With `in_progress_ok`, includes the segment being written, up to the last edit that a quorum has on disk. Raises
        QuorumFailed. Unless `gaps_ok`, raises SegmentUnreadable if transactions are missing between the segments.
        """
        seconds_max = self.config.select_input_streams_seconds_max
        request = GetEditLogManifest(from_txid, in_progress_ok)
        steps = readable_segments(self._set.acceptors, request, seconds_max, only_durable=only_durable)
        seen = [one for one in await self._set.run(steps) if one.last_txid >= from_txid]
        if not gaps_ok:
            check_no_gap(seen)
        readers = dict(enumerate(self._journals.values()))
        return [EditLogInputStream(one, readers, from_txid) for one in seen]

    async def journaled_edits(self, from_txid: int) -> Batch | None:
        """Returns the next edits that a quorum has on disk, at most TAIL_TXNS_MAX, or None if there are none yet.

        Raises QuorumFailed if too few acceptors have the edits cached; the input streams may still provide them.
        """
        edits = await self._follower.durable_edits(from_txid)
        return None if edits is None else edits[0]

    async def tail(self, from_txid: int) -> AsyncGenerator[EditOp, None]:
        """Yields every edit from `from_txid` on as it becomes durable. Never ends. Raises JournalError."""
        async with aclosing(self.tail_batches(from_txid)) as batches:
            async for ops in batches:
                for op in ops:
                    yield op

    async def tail_batches(self, from_txid: int) -> AsyncGenerator[list[EditOp], None]:
        """Yields the same edits as `tail`, in batches."""
        async with aclosing(self._follower.batches(from_txid)) as batches:
            async for ops in batches:
                yield ops

    # --- status ---------------------------------------------------------------------------------------------

    def metrics(self) -> dict[str, dict[str, int | float | str]]:
        """Returns counters under Hadoop's names: `Journal-<id>`, with `-<acceptor>` appended if there are several
        acceptors, and `IPCLoggerChannel-<acceptor>`."""
        found: dict[str, dict[str, int | float | str]] = {}
        for journal in self._journals.values():
            if not isinstance(journal, Journal):
                continue
            suffix = "" if len(self._journals) == 1 else f"-{journal.name}"
            found[f"Journal-{self.journal_id}{suffix}"] = dict(journal.metrics.snapshot())
        for logger in self._set.loggers:
            found[f"IPCLoggerChannel-{logger.name}"] = logger.metrics.snapshot()
        return found

    def report(self) -> str:
        """Returns a status report for operators: the segment being written, and each acceptor's progress."""
        return self._stream.report() if self._stream is not None else self._set.report()

    @property
    def _journals(self) -> dict[str, Journal | RemoteAcceptor | AbsentAcceptor]:
        return self._opened.by_name

    def _keep_up_to_date(self) -> None:
        if self._syncing is None:
            self._syncing = self._opened.background_sync()
            if self._syncing is not None:
                self._syncing.start()

    def _why_closing_waits(self) -> str:
        purges = [f"acceptor {name} to purge" for name in self._purges.values()]
        waited_for = "; ".join([*purges, *self._opened.what_closing_waits_for()])
        return (
            f"closing journal {self.journal_id} is waiting for {waited_for or 'its clusters to be closed'}; "
            f"the next writer ends open segments"
        )

    @property
    def _follower(self) -> Follower:
        streams_from = partial(self.select_input_streams, in_progress_ok=True, gaps_ok=True)
        return Follower(self._set, self.config, streams_from)

    @property
    def _set(self) -> LoggerSet:
        if self._loggers is None:
            raise BadJournalState("this journal manager is not open; use it as `async with`")
        return self._loggers

    def _ended(self, stream: EditLogOutputStream) -> None:
        if self._stream is stream:
            self._stream = None
        if stream.is_in_doubt:  # a retry could assign the txids of the edits in doubt to other edits
            self._proposer.is_active_writer = False
        elif stream.committed_txid < stream.first_txid:
            self._proposer.nothing_was_written(stream.first_txid)
