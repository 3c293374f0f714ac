"""Producers: writers that number their records, and append again what they have no answer for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ledgers.logs.errors import SequenceTooOld
from ledgers.logs.log import Log
from ledgers.logs.writing.log_writer import LogWriter
from tests.simulation.engine.world import Violation

from .actors import LogWriterUser, Taken
from .plan import Term
from .probes import LogProbe


@dataclass(frozen=True, slots=True)
class Sale:
    """What a producer appends at once, from this sequence on."""

    sequence: int
    payloads: tuple[bytes, ...]

    @property
    def is_impatient(self) -> bool:
        """Whether it is appended a second time before the first answer has come."""
        return self.sequence % 3 == 0


class ProducerUser(LogWriterUser):
    """Keeps what it has no answer for over its processes' deaths, and appends that first as the next writer; before
    that what was answered last, as if it had not heard: so much as its plan says, in other batches than before."""

    def __init__(self, *about: object) -> None:
        super().__init__(*about)  # type: ignore[arg-type]
        self.unanswered: list[Sale] = []
        self.answered: list[Sale] = []
        self._sequence = 0

    async def _write(self, log: Log, writer: LogWriter, term: Term) -> None:
        took = TakenOnce(self, log, writer)
        for sale in self._unsure(term.records):
            await took.sell(sale)
        self.unanswered += [self._sale(term.records) for _ in range(term.batches)]
        await took.run_all(term, [partial(took.sell, sale) for sale in list(self.unanswered)])
        await took.end(term)

    def _unsure(self, records: int) -> list[Sale]:
        """What was answered last: one sale as it was, more of them as single records, or so many together."""
        sales = sorted(self.answered, key=lambda sale: sale.sequence)[-self._plan.unsure :]
        if self._plan.unsure == 1:
            return sales
        left = [(sale.sequence + n, one) for sale in sales for n, one in enumerate(sale.payloads)]
        again: list[Sale] = []
        while left:
            first, together = left[0][0], 1 if records > 1 else 4
            now = [one for n, (sequence, one) in enumerate(left[:together]) if sequence == first + n]
            again.append(Sale(first, tuple(now)))
            left = left[len(now) :]
        return again

    def _sale(self, records: int) -> Sale:
        first, self._sequence = self._sequence, self._sequence + records
        return Sale(first, tuple(b"%s#%d" % (self.name.encode(), n) for n in range(first, self._sequence)))


class TakenOnce(Taken):
    """A producer's writer, watched: what it answers is told at once, and nothing is told twice elsewhere."""

    def __init__(self, user: ProducerUser, log: Log, writer: LogWriter) -> None:
        super().__init__(user, log, writer)
        self._producer = user
        writer.on_progress = lambda: None

    async def sell(self, sale: Sale) -> None:
        positions = await (self._sold_twice(sale) if sale.is_impatient else self._sold(sale))
        if sale in self._producer.unanswered:
            self._producer.unanswered.remove(sale)
            self._producer.answered.append(sale)
        for position, payload in zip(positions, sale.payloads, strict=True):
            self._user.site.truth.confirm(self._writer.epoch, position, payload, self._user.name)
        if positions[0] < self._start:
            self._user.site.world.reached(LogProbe.RETRIED)
        await self._user.one_end.told(self._log, positions[-1] + 1)

    async def _sold_twice(self, sale: Sale) -> Sequence[int]:
        again = asyncio.create_task(self._sold(sale))
        try:
            first = await self._sold(sale)  # begun at once: a producer appends in order
        finally:
            (second,) = await asyncio.gather(again, return_exceptions=True)
        if isinstance(second, BaseException):
            raise second
        if first != second:
            raise Violation("L10", f"{self._user.name} got {first} and {second} for {sale}")
        return first

    async def _sold(self, sale: Sale) -> Sequence[int]:
        """No sequence is too old: none is left out, and none is forgotten in so short a run."""
        try:
            positions = await self._appended(sale)
        except SequenceTooOld as error:
            raise Violation("L10", f"{self._user.name}: {error}, as it should not for {sale}") from error
        if positions[-1] >= self._writer.confirmed_end:
            raise Violation("L10", f"{self._user.name} is told of {positions}, which is not confirmed")
        return positions

    async def _appended(self, sale: Sale) -> Sequence[int]:
        name = self._user.name
        self._user.site.clock_truth.appended(sale.payloads)
        if len(sale.payloads) == 1:
            return [await self._writer.append(sale.payloads[0], producer=name, sequence=sale.sequence)]
        return list(await self._writer.append_batch(sale.payloads, producer=name, sequence=sale.sequence))
