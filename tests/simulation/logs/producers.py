"""Producers: writers that number their records, and append again what they have no answer for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ledgers.logs.producers.errors import SequenceTooOld
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
    that what was answered last, as if it had not heard."""

    def __init__(self, *about: object) -> None:
        super().__init__(*about)  # type: ignore[arg-type]
        self.unanswered: list[Sale] = []
        self.answered: Sale | None = None
        self._sequence = 0

    async def _write(self, writer: LogWriter, term: Term) -> None:
        took = TakenOnce(self, writer)
        if self.answered is not None:
            await took.sell(self.answered)
        self.unanswered += [self._sale(term.records) for _ in range(term.batches)]
        await took.run_all(term, [partial(took.sell, sale) for sale in list(self.unanswered)])
        await took.end(term)

    def _sale(self, records: int) -> Sale:
        first, self._sequence = self._sequence, self._sequence + records
        return Sale(first, tuple(b"%s#%d" % (self.name.encode(), n) for n in range(first, self._sequence)))


class TakenOnce(Taken):
    """A producer's writer, watched: what it answers is told at once, and nothing is told twice elsewhere."""

    def __init__(self, user: ProducerUser, writer: LogWriter) -> None:
        super().__init__(user, writer)
        self._producer = user
        writer.on_progress = lambda: None

    async def sell(self, sale: Sale) -> None:
        positions = await self._positions_of(sale)
        if positions is None:
            return
        self._answered(sale)
        for position, payload in zip(positions, sale.payloads, strict=True):
            self._user.site.truth.confirm(self._writer.epoch, position, payload, self._user.name)
        if positions[0] < self._start:
            self._user.site.world.reached(LogProbe.RETRIED)

    def _answered(self, sale: Sale) -> None:
        self._producer.answered = sale
        if sale in self._producer.unanswered:
            self._producer.unanswered.remove(sale)

    async def _positions_of(self, sale: Sale) -> Sequence[int] | None:
        """None where the log has all of it, and does not know where any more."""
        name = self._user.name
        try:
            return await (self._sold_twice(sale) if sale.is_impatient else self._sold(sale))
        except SequenceTooOld as error:
            if error.last_sequence < sale.sequence + len(sale.payloads) - 1:
                raise Violation("L10", f"{name}: {error}, and some of {sale} are newer") from error
            self._answered(sale)
            self._user.site.truth.claimed_stored(sale.payloads)
            return None

    async def _sold_twice(self, sale: Sale) -> Sequence[int]:
        again = asyncio.create_task(self._sold(sale))
        try:
            first = await self._sold(sale)  # begun at once: a producer appends in order
        finally:
            (second,) = await asyncio.gather(again, return_exceptions=True)
        if isinstance(second, SequenceTooOld):
            return first  # the producer has come further meanwhile
        if isinstance(second, BaseException):
            raise second
        if first != second:
            raise Violation("L10", f"{self._user.name} got {first} and {second} for {sale}")
        return first

    async def _sold(self, sale: Sale) -> Sequence[int]:
        try:
            positions = await self._appended(sale)
        except SequenceTooOld as error:
            self._check_confirmed(error.last_position)
            raise
        self._check_confirmed(positions[-1])
        return positions

    async def _appended(self, sale: Sale) -> Sequence[int]:
        name = self._user.name
        self._user.site.clock_truth.appended(sale.payloads)
        if len(sale.payloads) == 1:
            return [await self._writer.append(sale.payloads[0], producer=name, sequence=sale.sequence)]
        return list(await self._writer.append_batch(sale.payloads, producer=name, sequence=sale.sequence))

    def _check_confirmed(self, position: int) -> None:
        """What a producer is told of is confirmed."""
        if position >= self._writer.confirmed_end:
            raise Violation("L10", f"{self._user.name} is told of {position}, which is not confirmed")
