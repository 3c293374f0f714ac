"""`bookledger bookie gc`, `scrub` and `repair`: whom they ask for what, what they print, how they fail."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from bookie.errors import BookieError
from bookie.serving.service import Maintain
from bookie.wire.messages import MaintainReply, MaintainRequest, MaintenanceAction, Status
from metadata.errors import StoreUnavailable
from tests.support.command_line import bookledger
from tests.support.in_process import InProcessCluster
from tests.support.upkeep import never_ends, on_maintained, raising, replying, reports

GIVES_UP_SECONDS = 15.0
"""For a command that is to wait for a fraction of a second, on a busy machine."""


async def command(cluster: InProcessCluster, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """`bookledger bookie …` on this cluster."""
    return await asyncio.to_thread(bookledger, "bookie", *arguments, f"--metadata={cluster.uri}")


async def failing(cluster: InProcessCluster, *arguments: str) -> str:
    """The one line that a command fails with."""
    done = await command(cluster, *arguments)
    assert done.returncode == 1, done
    (line,) = done.stderr.decode().splitlines()
    return line.removeprefix("bookledger: ")


@pytest.mark.parametrize(
    ("arguments", "request_"),
    [
        (("gc", "run"), MaintainRequest(MaintenanceAction.COLLECT)),
        (("gc", "suspend"), MaintainRequest(MaintenanceAction.SUSPEND)),
        (("gc", "resume"), MaintainRequest(MaintenanceAction.RESUME)),
        (("gc", "status"), MaintainRequest(MaintenanceAction.STATUS)),
        (("scrub",), MaintainRequest(MaintenanceAction.SCRUB)),
        (("repair",), MaintainRequest(MaintenanceAction.REPAIR)),
        (("repair", "--adopt=old-1"), MaintainRequest(MaintenanceAction.REPAIR, "old-1")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
async def test_a_command_asks_its_bookie_for_just_that_and_prints_the_report(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    request_: MaintainRequest,
) -> None:
    async with on_maintained(tmp_path, monkeypatch, reports, bookies=2) as (cluster, upkeep):
        done = await command(cluster, *arguments, "b2")
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.decode().splitlines() == [
            "bookie id    b2",
            f"did          {request_.action.value}",
            "bytes freed  4.0 KiB (4,096 bytes)",
        ]
        assert upkeep.asked == [("b2", request_)]


async def test_every_live_bookie_is_asked_in_turn_and_each_report_is_one_line_of_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with on_maintained(tmp_path, monkeypatch, reports, bookies=3) as (cluster, upkeep):
        await cluster.stop("b2")
        done = await command(cluster, "gc", "run", "--all", "--json")
        assert done.returncode == 0
        said = [json.loads(line) for line in done.stdout.splitlines()]
        assert said == [{"bookie_id": b, "did": "collect", "bytes_freed": 4096} for b in ("b1", "b3")]
        assert [name for name, _ in upkeep.asked] == ["b1", "b3"]
        done = await command(cluster, "scrub", "b3", "b1", "b3")
        first, second = done.stdout.decode().split("\n\n")
        assert first.startswith("bookie id    b3\n")
        assert second.startswith("bookie id    b1\n")
        assert [name for name, _ in upkeep.asked[2:]] == ["b3", "b1"], "as named, and each once"


async def test_one_bookie_that_fails_keeps_no_other_from_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with on_maintained(tmp_path, monkeypatch, reports, bookies=3) as (cluster, upkeep):

        async def answer(request: MaintainRequest) -> MaintainReply:
            if upkeep.asked[-1][0] == "b2":
                return await reports(request)
            raise BookieError(f"{upkeep.asked[-1][0]} cannot")

        upkeep.answer = answer
        done = await command(cluster, "gc", "run", "--all", "--json")
        assert done.returncode == 1
        assert [json.loads(line)["bookie_id"] for line in done.stdout.splitlines()] == ["b2"]
        assert done.stderr == b"bookledger: b1: i/o error: b1 cannot; b3: i/o error: b3 cannot\n"


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (replying(Status.BAD_REQUEST, "there is no bookie old-1"), "bad request: there is no bookie old-1"),
        (replying(Status.UNKNOWN), "unknown: the bookie cannot vouch for this ledger"),
        (raising(BookieError("no peers")), "i/o error: no peers"),
        (raising(StoreUnavailable("etcd is away")), "i/o error: etcd is away"),
        (raising(OSError(5, "Input/output error")), "i/o error: [Errno 5] Input/output error"),
        (replying(Status.OK, "", "{"), "the report is not JSON: "),
        (replying(Status.OK, "", "[1]"), "the report is not a JSON object"),
    ],
)
async def test_what_a_bookie_refuses_or_fails_at_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: Maintain,
    line: str,
) -> None:
    async with on_maintained(tmp_path, monkeypatch, answer) as (cluster, _):
        assert (await failing(cluster, "repair", "b1", "--adopt=old-1")).startswith(f"b1: {line}")


async def test_a_bookie_that_is_not_there_is_named_and_no_other_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with on_maintained(tmp_path, monkeypatch, reports) as (cluster, upkeep):
        assert await failing(cluster, "gc", "run", "b1", "b7", "b0") == "not registered: b0, b7"
        assert not upkeep.asked
        await cluster.stop("b1")
        assert await failing(cluster, "gc", "run", "--all") == "no bookie is registered"


async def test_a_bookie_that_takes_too_long_is_told_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with on_maintained(tmp_path, monkeypatch, never_ends) as (cluster, upkeep):
        async with asyncio.timeout(GIVES_UP_SECONDS):
            line = await failing(cluster, "scrub", "b1", "--timeout=0.3")
        assert line.startswith("b1: deadline exceeded")
        await upkeep.cancelled.wait()


async def test_a_scrub_that_could_not_read_a_segment_fails_and_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = json.dumps(
        {"segments": 5, "unread": ["00000003.log: Permission denied", "00000004.log: I/O error"]}
    )
    async with on_maintained(tmp_path, monkeypatch, replying(Status.OK, report=report)) as (cluster, _):
        line = await failing(cluster, "scrub", "b1")
        assert line.endswith(
            ": 2 segments of its log cannot be read, the first is 00000003.log: Permission denied"
        )
