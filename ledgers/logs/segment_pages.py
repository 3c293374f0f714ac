"""Moves earlier segments of a log from the log's record to pages, and finds them there."""

from __future__ import annotations

import logging

from metadata.records.logs.log_record import LogRecord
from metadata.records.logs.segment import Segment

from ..errors import LedgerError
from ..record_change import metadata_errors
from .log_chain import LogChain

log = logging.getLogger(__name__)


async def turn_full_pages(chain: LogChain) -> None:
    """Moves segments from the log's record to pages if the record holds many. If that fails, the next writer or the
    next segment roll tries again."""
    while page := chain.record.full_page():
        try:
            await turn_page(chain, page)
        except LedgerError as error:
            log.info(
                "log %r keeps %d segments in its record, because moving them failed: %s",
                chain.record.name,
                len(page),
                error,
            )
            return


async def turn_page(chain: LogChain, page: tuple[Segment, ...]) -> None:
    """Moves segments from the record to a page. Writes the page first, so that a reader always finds the segments in
    the record or in the page."""
    with metadata_errors():
        await chain.logs.put_page(chain.record.identity, page)
    await chain.change(lambda record: record.without_page(page))


async def segment_at(chain: LogChain, position: int) -> Segment | None:
    """Returns the segment that holds a position, or None if no segment holds it (yet). Needs at most one look-up."""
    record = chain.record
    if position >= record.paged_through:
        return record.segment_of(position)
    with metadata_errors():
        page = await chain.logs.page_of(record.identity, position)
    return None if page is None else next((s for s in page.segments if s.holds(position)), None)


async def segment_at_time(chain: LogChain, time_us: int) -> Segment | None:
    """Returns the first remaining segment that has records of this time or later. If no ended segment has any, returns
    the last segment if it is open; otherwise returns None, because all records are older. Needs at most three
    look-ups."""
    record = chain.record
    page = None
    if time_us <= record.paged_us:
        with metadata_errors():
            page = await chain.logs.page_of_time(record.identity, time_us)
    segments = record.segments if page is None else page.segments
    found = next((s for s in segments if _is_left(s, record) and s.ended_us >= time_us), None)
    if found is not None:
        return found
    if page is not None:  # the page's records of this time were all truncated
        return await segment_at(chain, record.first_position)
    return record.last if record.end_position is None else None


def _is_left(segment: Segment, record: LogRecord) -> bool:
    return segment.end_position is not None and segment.end_position > record.first_position
