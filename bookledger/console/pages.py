"""Request handlers of the console's pages. Each page shows the same facts as the API."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from aiohttp import web

from bookledger.admin.api import (
    cluster_state,
    elections,
    healing_state,
    journal_state,
    ledger_state,
    log_state,
)
from bookledger.admin.api.ledger_state import NEWEST
from bookledger.admin.api.metadata_view import Away
from bookledger.admin.api.search import STATES
from bookledger.admin.api.table import (
    BOOKIE,
    CUSTOM,
    FIRST_NAME,
    FIRST_SEGMENT,
    ORDER,
    STATE,
    Parameter,
)
from bookledger.admin.http.guard import peer_of
from bookledger.admin.http.problems import Problem
from ledgers.aio import LedgerClient
from ledgers.errors import LedgerError
from metadata.audit import DONE, Act
from metadata.keys import LEDGER_ID_MAX

from .live import Live
from .rates import Chart
from .rendering import page
from .sources import Drawn, Sources
from .stripes import drawn

ENTRIES_A_PAGE = 50

READ_SECONDS_MAX = 10.0
"""Time limit for reading the entries of a page, because bookies may be unavailable."""

BYTES_SHOWN_MAX = 512
"""Maximum number of bytes shown of a payload; the rest are only counted."""


@dataclass(frozen=True, slots=True)
class Shown:
    """An entry on the page. In `text`, replacement characters stand for invalid UTF-8."""

    entry_id: int
    size_bytes: int
    text: str


@dataclass(frozen=True, slots=True)
class EntriesPage:
    """A page of entries. `problem`: why the entries cannot be shown; empty if they can. `last`: the last confirmed
    entry."""

    entries: tuple[Shown, ...] = ()
    last: int = -1
    problem: str = ""


async def read_page(client: LedgerClient, has_password: bool, ledger_id: int, first: int) -> EntriesPage:
    """Reads a page of entries without disturbing a writer. Errors are shown on the page."""
    if has_password:
        return EntriesPage(problem="the ledger has a password, which this console does not have")
    try:
        async with asyncio.timeout(READ_SECONDS_MAX):
            reader = await client.open_ledger(ledger_id, recovery=False)
            last = reader.last_add_confirmed
            if first > last:
                return EntriesPage(last=last)
            found = [one async for one in reader.read(first, min(last, first + ENTRIES_A_PAGE - 1))]
    except TimeoutError:
        return EntriesPage(problem=f"the bookies have not answered for {READ_SECONDS_MAX:g} s")
    except LedgerError as error:
        return EntriesPage(problem=str(error))
    return EntriesPage(tuple(_shown(one.entry_id, one.payload) for one in found), last)


def _shown(entry_id: int, payload: bytes) -> Shown:
    return Shown(entry_id, len(payload), payload[:BYTES_SHOWN_MAX].decode(errors="replace"))


MARKS_A_PAGE = 50
LEDGERS_A_PAGE = 50
LOGS_A_PAGE = 50
BOOKIES_A_PAGE = cluster_state.BOOKIES_MAX
FRAGMENTS_A_PAGE = ledger_state.FRAGMENTS_MAX

NO_ENTRIES = (
    "Entries are not shown here, because they are your users' data. `bookledger console --entries` starts a console "
    "that shows them. From a shell: `bookledger ledger read {}`"
)

ENTRIES = "entries"
"""The template of the page that shows payloads."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Page = Callable[[web.Request, Sources], Awaitable[Drawn]]

_FIRST = Parameter("first", "The id of the first item shown.", 0, LEDGER_ID_MAX, 0)
_FROM = Parameter("from", "The number of the first fragment shown.", 0, 1_000_000, 0)
_LEDGER = Parameter("ledger_id", "A ledger.", 0, LEDGER_ID_MAX)


def handler(draw: Page, sources: Sources) -> Handler:
    """Returns a handler that renders a page. It raises Problem, which becomes an error page or a problem document."""

    async def handle(request: web.Request) -> web.Response:
        try:
            drawn = await draw(request, sources)
        except Away as error:
            return _out_of_sight(str(error), sources.last.of(request.path_qs))
        except ValueError as error:
            raise Problem(HTTPStatus.BAD_REQUEST, str(error), title="Invalid request") from None
        if drawn.name != ENTRIES:  # users' data is never cached, because each view of it is audited
            sources.last.keep(request.path_qs, drawn)
        return page(drawn.name, **drawn.values)

    return handle


def _out_of_sight(why: str, last: Drawn | None) -> web.Response:
    """Returns the last state of the page, marked as outdated. Raises Problem if there is none."""
    if last is None:
        raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, why, title="Metadata unavailable")
    away = {"why": why, "at": time.time() * 1000, "last_ms": last.at_ms}
    return page(last.name, HTTPStatus.SERVICE_UNAVAILABLE, **last.values, away=away)


def error_page(status: HTTPStatus, title: str, why: str) -> web.Response:
    """Returns an error page. If the metadata is unavailable, the page refreshes itself."""
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        away = {"why": why, "at": time.time() * 1000, "last_ms": None}
        return page("away", status, title=title, away=away)
    return page("wrong", status, title=title, why=why)


async def overview(_: web.Request, sources: Sources) -> Drawn:
    moment = sources.live.look_on()
    found = await cluster_state.cluster(sources.sight)
    everybody = await cluster_state.bookies(sources.sight)
    return _drawn(
        "overview",
        title="Cluster",
        cluster=found,
        **_bookies_live(everybody, sources.live),
        whole=moment.whole,
        charts=_charts(sources.live),
    )


async def bookies(request: web.Request, sources: Sources) -> Drawn:
    sources.live.look_on()
    first = FIRST_NAME.read(request.query)
    found = await cluster_state.bookies(sources.sight, first, BOOKIES_A_PAGE)
    domains: dict[str, list[dict[str, Any]]] = {}
    for row in found["bookies"]:
        domains.setdefault(row["fault_domain"] or "", []).append(row)
    return _drawn(
        "bookies",
        title="Bookies",
        domains=domains,
        first=first,
        following=found["next"],
        **_bookies_live(found, sources.live),
    )


async def ledgers(request: web.Request, sources: Sources) -> Drawn:
    """Shows the newest ledgers first, unless the request contains a search or a first id."""
    query = {name: text for name, text in request.query.items() if text}  # a form also sends empty fields
    first, step = _FIRST.read(query), LEDGERS_A_PAGE
    given = {one.name: one.read(query) for one in (STATE, CUSTOM, BOOKIE)}
    wanted = {name: text for name, text in given.items() if text}
    order = ORDER.read(query) or (NEWEST if not wanted and "first" not in query else "")
    found = await ledger_state.ledgers(sources.sight, first, step, **given, order=order)
    return _drawn(
        "ledgers",
        title="Ledgers",
        found=found,
        first=first,
        order=order,
        step=step,
        given=given,
        wanted=wanted,
        states=STATES,
    )


async def one_bookie(request: web.Request, sources: Sources) -> Drawn:
    """Shows a bookie, and the ledgers whose entries it stores."""
    sources.live.look_on()
    bookie_id, first = request.match_info["bookie_id"], _FIRST.read(request.query)
    everybody = await cluster_state.bookies(sources.sight, bookie_id, 1)
    rows = [row for row in everybody["bookies"] if row["bookie_id"] == bookie_id]
    if not rows:
        why = f"There is no bookie {bookie_id}: it was decommissioned, or never formatted."
        raise Problem(HTTPStatus.NOT_FOUND, why, title="No such bookie")
    found = await ledger_state.ledgers(sources.sight, first, LEDGERS_A_PAGE, bookie=bookie_id)
    about = _bookies_live({"bookies": rows}, sources.live)
    return _drawn(
        "bookie", title=f"Bookie {bookie_id}", bookie_id=bookie_id, found=found, first=first, **about
    )


async def one_ledger(request: web.Request, sources: Sources) -> Drawn:
    ledger_id, first = _LEDGER.read(request.match_info), _FROM.read(request.query)
    found = await ledger_state.one_ledger(sources.sight, ledger_id, first)
    if found is None:
        raise _no_ledger(ledger_id)
    return _drawn(
        "ledger",
        title=f"Ledger {ledger_id}",
        ledger=found,
        stripes=drawn(found),
        first=first,
        step=FRAGMENTS_A_PAGE,
        shows_entries=sources.shows_entries,
    )


async def ledger_entries(request: web.Request, sources: Sources) -> Drawn:
    ledger_id, first = _LEDGER.read(request.match_info), _FIRST.read(request.query)
    title = f"Entries of ledger {ledger_id}"
    if not sources.shows_entries:
        raise Problem(HTTPStatus.NOT_FOUND, NO_ENTRIES.format(ledger_id), title=title)
    found = await ledger_state.one_ledger(sources.sight, ledger_id, 0)
    if found is None:
        raise _no_ledger(ledger_id)
    try:
        client = await sources.live.client()
    except LedgerError as error:
        raise Away(str(error)) from error
    page = await read_page(client, found["has_password"], ledger_id, first)
    last = page.entries[-1].entry_id if page.entries else None
    peer_of(request).record_audit(
        Act.SHOW_ENTRIES, page.problem or DONE, ledger_id=ledger_id, first_entry=first, last_entry=last
    )
    return _drawn(
        ENTRIES,
        title=title,
        ledger_id=ledger_id,
        read=page,
        first=first,
        step=ENTRIES_A_PAGE,
        shown_max=BYTES_SHOWN_MAX,
    )


async def healing(request: web.Request, sources: Sources) -> Drawn:
    first = _FIRST.read(request.query)
    found = await healing_state.healing(sources.sight)
    marked = await healing_state.fragments(sources.sight, first, MARKS_A_PAGE)
    return _drawn("healing", title="Healing", found=found, marked=marked, first=first)


async def logs(request: web.Request, sources: Sources) -> Drawn:
    first = FIRST_NAME.read(request.query)
    found = await log_state.logs(sources.sight, first, LOGS_A_PAGE)
    led = await elections.elections(sources.sight)
    return _drawn("logs", title="Logs", found=found, first=first, elections=led)


async def one_log(request: web.Request, sources: Sources) -> Drawn:
    """Shows a log from its oldest segment on, or from the segment given in the request."""
    name, first = request.match_info["log"], FIRST_SEGMENT.read(request.query)
    found = await log_state.one_log(sources.sight, name, first)
    if found is None:
        why = f"There is no log {name}: it was deleted, renamed, or never created."
        raise Problem(HTTPStatus.NOT_FOUND, why, title="No such log")
    return _drawn("log", title=f"Log {name}", log=found, first=first)


async def all_journals(_: web.Request, sources: Sources) -> Drawn:
    return _drawn("journals", title="Journals", found=await journal_state.journals(sources.sight))


def _drawn(name: str, **values: Any) -> Drawn:
    return Drawn(name, values, time.time() * 1000)


def _no_ledger(ledger_id: int) -> Problem:
    why = f"There is no ledger {ledger_id}: it was deleted, or never created."
    return Problem(HTTPStatus.NOT_FOUND, why, title="No such ledger")


def _bookies_live(found: dict[str, Any], live: Live) -> dict[str, Any]:
    """Returns the live values for a page with a table of bookies."""
    moment = live.moments[-1] if live.moments else None
    living = {row["bookie_id"] for row in found["bookies"] if row["lives"]}
    return {
        "bookies": found["bookies"],
        "rates": moment.rates if moment else {},
        "silent": {name: why for name, why in moment.silent.items() if name in living} if moment else {},
    }


def _charts(live: Live) -> dict[str, Chart]:
    """Returns charts of all kept polls that have rates. For a poll without appends, the latency is drawn as 0."""
    measured = [(moment.at, moment.whole) for moment in live.moments if moment.whole is not None]
    wholes = [whole for _, whole in measured]
    seconds = measured[-1][0] - measured[0][0] if measured else 0.0
    series = {
        "entries": [one.entries for one in wholes],
        "bytes": [one.bytes for one in wholes],
        "reads": [one.entries_read for one in wholes],
        "latency": [one.quantile(0.99) or 0.0 for one in wholes],
    }
    return {name: Chart(tuple(values), seconds) for name, values in series.items()}
