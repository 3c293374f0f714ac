"""Polls the counters of the live bookies every few seconds while a page is open."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from bookie.wire import InfoReply
from bookledger.admin.api.metadata_view import Away, MetadataView
from bookledger.cluster.log_lags import lag_of
from bookledger.cluster.open_ledgers import AtBookies, Open, ask_bookies
from ledgers.aio import LedgerClient
from ledgers.config import ClientConfig
from ledgers.errors import BookieUnavailable, LedgerError
from metadata.records.ledger_record import BookieRef, LedgerRecord
from metadata.records.logs.log_record import LogRecord

from .rates import Rates, between, together

LOOK_SECONDS = 2.0
"""Interval between polls of the bookies while a page is open, and between refreshes of that page."""

IDLE_SECONDS = 30.0
"""How long polling continues after the last request for a page."""

BOOKIES_ASKED_MAX = 200
"""Maximum number of bookies per poll, taken in order of their names. Further bookies are shown without live values."""

BOOKIE_ANSWER_SECONDS_MAX = LOOK_SECONDS
"""How long a bookie may take to answer: one that has not answered when the next poll is due is shown as silent."""

SILENT_SECONDS_MAX = 10.0
"""Maximum age of the poll that decides which bookies are silent."""

MOMENTS_MAX = 90
"""Maximum number of polls kept: those of the last three minutes."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PollResult:
    """The result of one poll.

    `rates`: the rates of bookies that answered both this poll and the previous one. `silent`: why registered bookies
    did not answer. `at`: monotonic seconds.
    """

    rates: dict[str, Rates] = field(default_factory=dict)
    silent: dict[str, str] = field(default_factory=dict)
    at: float = 0.0

    @property
    def whole(self) -> Rates | None:
        """The sum of the rates of all bookies; None if there are no rates."""
        return together(self.rates.values()) if self.rates else None


class Live:
    """The poller, on one event loop. `metadata_uri` and `config` are for the poller's own client."""

    def __init__(self, sight: MetadataView, metadata_uri: str, config: ClientConfig | None) -> None:
        self._sight = sight
        self._uri = metadata_uri
        self._config = config
        self._client: LedgerClient | None = None
        self._asking: asyncio.Task[None] | None = None
        self._before: dict[str, tuple[float, InfoReply]] = {}
        self._wanted = 0.0
        self.moments: deque[PollResult] = deque(maxlen=MOMENTS_MAX)

    def look_on(self) -> PollResult:
        """Returns the latest result, and keeps polling for another IDLE_SECONDS."""
        self._wanted = time.monotonic()
        if self._asking is None or self._asking.done():
            self.moments.clear()  # lines in charts must not span a gap between polls
            self._before.clear()
            self._asking = asyncio.create_task(self._run())
        return self.moments[-1] if self.moments else PollResult()

    async def client(self) -> LedgerClient:
        """Returns the client, connecting it first if necessary. Raises LedgerError."""
        if self._client is None:
            self._client = LedgerClient(self._uri, config=self._config)
        await self._client.connect()
        return self._client

    async def ask_bookies(self, records: Sequence[LedgerRecord]) -> Open:
        """Asks the bookies about the ledgers in `records` that are not closed."""
        if all(record.is_closed for record in records):
            return {}
        try:
            client = await self.client()
        except LedgerError as error:
            return {record.ledger_id: AtBookies(why_unknown=str(error)) for record in records}
        return await ask_bookies(client, records)

    def silent(self) -> dict[str, str] | None:
        """Returns why registered bookies did not answer; None if there has been no recent poll."""
        newest = self.moments[-1] if self.moments else PollResult()
        return newest.silent if time.monotonic() - newest.at < SILENT_SECONDS_MAX else None

    async def ask_lag(self, record: LogRecord, position: int) -> tuple[int, float] | None:
        """Returns the lag of a reader at this position of the log; see `lag_of`."""
        try:
            return await lag_of(await self.client(), record, position)
        except LedgerError:
            return None  # the page already reports that the bookies cannot be asked

    async def stop(self) -> None:
        """Stops polling."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])
        if self._client is not None:
            await self._client.close()

    async def _run(self) -> None:
        while time.monotonic() - self._wanted < IDLE_SECONDS:
            try:
                await self._look()
            except (Away, LedgerError) as error:  # a page reports the error, too
                log.info("cannot read the counters of the bookies: %s", error)
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        async with self._sight.looking() as store:
            view = await self._sight.view(store)
        client = await self.client()
        living = sorted(view.living)[:BOOKIES_ASKED_MAX]
        answers = await asyncio.gather(*(self._ask(client, bookie) for bookie in living))
        rates: dict[str, Rates] = {}
        silent: dict[str, str] = {}
        now = time.monotonic()
        for bookie, answer in zip(living, answers, strict=True):
            name = bookie.bookie_id
            if isinstance(answer, str):
                silent[name] = answer
                self._before.pop(name, None)
                continue
            then, before = self._before.get(name, (now, answer))
            self._before[name] = now, answer
            if (found := between(before, answer, now - then)) is not None:
                rates[name] = found
        self.moments.append(PollResult(rates, silent, now))

    async def _ask(self, client: LedgerClient, bookie: BookieRef) -> InfoReply | str:
        try:
            async with asyncio.timeout(BOOKIE_ANSWER_SECONDS_MAX):
                return await client.bookie_info(bookie)
        except TimeoutError:
            return f"it has not answered for {BOOKIE_ANSWER_SECONDS_MAX:g} s"
        except BookieUnavailable as error:
            return error.why
