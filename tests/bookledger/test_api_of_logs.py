"""`/api/v1/logs` and the console's pages of logs: segments, cursors, leaders and retention, by the metadata."""

from __future__ import annotations

import html
from dataclasses import replace

import pytest

from bookledger.admin.api import elections, log_state
from metadata import keys, open_store
from metadata.records.coordination.candidates import Candidate, CandidateStore
from metadata.records.coordination.cursor_record import CursorRecord, CursorStore
from metadata.records.coordination.election_record import begin_term
from metadata.records.logs.log_record import LogRecord, SetMember
from metadata.records.logs.log_store import LogStore
from metadata.records.logs.retention import Retention
from metadata.records.logs.segment import Segment
from tests.support.candidates import enter
from tests.support.made_clusters import a_cluster_in_memory
from tests.support.present import there

from .console.test_pages import shown, text_of
from .test_api import answering, ask, pages, told

SECOND = 1_000_000
SEGMENTS = tuple(
    Segment(n, 10 * n, 1, n * SECOND, 10 * n + 10 if n < 5 else None, (n + 1) * SECOND, 100 if n < 5 else 0)
    for n in range(6)
)


async def with_logs() -> str:
    """`orders` has a page of three segments, and was written under an election; two others; one that is deleted."""
    uri = await a_cluster_in_memory(ledgers=1, living=3)
    store = await open_store(uri)
    logs = LogStore(store)
    settled = Retention(age_seconds=10**6, cursors=("billing",), cursor_silent_seconds=60)
    orders = LogRecord(
        b"o" * 16,
        "orders",
        epoch=3,
        writer="w<1>",
        first_position=5,
        segments=SEGMENTS[3:],
        paged_through=30,
        retention=settled,
        election="scheduler",
        token=1,
    )
    await logs.put_page(orders.identity, SEGMENTS[:3])
    of_set = LogRecord(b"audi" * 4, "audits.0", created_ms=7, member=SetMember(b"s" * 16, 0, 1, 0))
    for record in (
        orders,
        of_set,
        LogRecord(b"payb" * 4, "payb", created_ms=7),
        LogRecord(b"gone" * 4, "gone", deleted=True),
    ):
        await logs.create(record)
        await logs.give_name(record.name, record.identity)
    await CursorStore(store, orders.identity).create("billing", CursorRecord(12, consumer="c1", changed_ms=9))
    await CursorStore(store, orders.identity).create("late", CursorRecord(0))
    candidate = Candidate("candidates/elections/scheduler/00", 1, "host-7", 5)
    await store.create(candidate.key, b"")
    await begin_term(store, "scheduler", candidate, 5)
    lease = await store.grant_lease(3600)
    for name in ("host-8", "host-9"):
        await enter(CandidateStore(store, keys.election("scheduler")), name, 6, lease)
    await begin_term(store, "left", replace(candidate, key="candidates/elections/left/00"), 6)
    return uri


async def test_logs_are_told_by_name_a_page_at_a_time() -> None:
    async with answering(await with_logs()) as url:
        found = await told(url, "/logs")
        named = [(one["log"], one["set"]) for one in found["logs"]]
        assert named == [("audits.0", "audits"), ("orders", None), ("payb", None)]
        assert found["next"] is None
        found = await told(url, "/logs", "/logs?limit=2")
        assert ([one["log"] for one in found["logs"]], found["next"]) == (["audits.0", "orders"], "payb")
        found = await told(url, "/logs", f"/logs?limit=2&first={found['next']}")
        assert [one["log"] for one in found["logs"]] == ["payb"]


async def test_a_log_is_told_with_its_segments_cursors_leader_and_what_goes_next() -> None:
    async with answering(await with_logs()) as url:
        log = await told(url, "/logs/{log}", "/logs/orders")
        assert [one["first_position"] for one in log["segments"]] == [0, 10, 20, 30, 40, 50]
        assert log["leader"] == {"election": "scheduler", "token": 1, "leader": "host-7", "since_ms": 5}
        billing, late = log["cursors"]
        assert (billing["lag_records"], billing["consumer"], billing["truncated"]) == (None, "c1", 0)
        assert (late["lag_records"], late["truncated"]) == (None, 5), "no bookie lives"
        assert (log["next"]["first_position"], log["goes_before"]) == (0, None)
        assert log["counted_cursors"][0]["counts"] is True
        assert (await ask(f"{url}/logs/gone"))[0] == (await ask(f"{url}/logs/..%2Fx"))[0] == 404


async def test_elections_are_told_also_those_that_lead_no_log_and_have_no_leader() -> None:
    async with answering(await with_logs()) as url:
        page = await told(url, "/elections", "/elections?limit=1")
        assert page["elections"] == [
            {
                "election": "left",
                "token": 1,
                "leader": None,
                "since_ms": None,
                "waiting": [],
                "waiting_count": 0,
            }
        ]
        [scheduler] = (await told(url, "/elections", f"/elections?first={page['next']}"))["elections"]
        assert (scheduler["leader"], scheduler["token"], scheduler["since_ms"]) == ("host-7", 1, 5)
        assert scheduler["waiting"] == ["host-8", "host-9"]


async def test_a_page_names_some_of_those_who_wait_and_counts_them_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(elections, "WAITING_MAX", 1)
    async with answering(await with_logs()) as url:
        [_, scheduler] = (await told(url, "/elections"))["elections"]
    assert (scheduler["waiting"], scheduler["waiting_count"]) == (["host-8"], 2)


async def test_a_long_log_is_told_some_segments_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_state, "SEGMENTS_MAX", 2)
    async with answering(await with_logs()) as url:
        found = await pages(url, "/logs/{log}", "/logs/orders?first_segment=", following="next_segment")
    seen = [one["first_position"] for page in found for one in page["segments"]]
    assert seen == [0, 10, 20, 30, 40, 50]


async def test_the_consoles_pages_tell_the_same() -> None:
    uri = await with_logs()
    logs = LogStore(await open_store(uri))
    found = there(await logs.read(b"o" * 16))
    async with shown(uri) as session:
        every = html.unescape(await text_of(session, "/logs"))
        for words in ("but not before billing", "<td>audits</td>", "host-8, host-9", "no leader"):
            assert words in every
        one = html.unescape(await text_of(session, "/logs/orders"))
        for words in (
            "host-7, election scheduler, token 1",
            "5 records were deleted before it read them",
            "w<1>",
        ):
            assert words in one
        assert "positions 0 to 9, 100 B: at 1970-01-12 13:46:41 UTC" in one
        await logs.change(replace(found.record, legal_hold=True), found.version)
        assert "the log is under legal hold" in await text_of(session, "/logs/orders")
        assert "There is no log gone" in await text_of(session, "/logs/gone", 404)
