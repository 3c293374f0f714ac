"""Real bookies, served as ever, whose upkeep is the tests' own."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bookie.serving import daemon
from bookie.serving.service import BookieService, Maintain
from bookie.wire.messages import MaintainReply, MaintainRequest, Status
from metadata.records.ledger_record import BookieRef
from tests.support.in_process import InProcessCluster, cluster_of


@dataclass
class Upkeep:
    """What the bookies are asked, and what they answer with."""

    answer: Maintain
    asked: list[tuple[str, MaintainRequest]] = field(default_factory=list)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    def of(self, bookie_id: str) -> Maintain:
        async def maintain(request: MaintainRequest) -> MaintainReply:
            self.asked.append((bookie_id, request))
            self.begun.set()
            try:
                return await self.answer(request)
            except asyncio.CancelledError:
                self.cancelled.set()
                raise

        return maintain


async def reports(request: MaintainRequest) -> MaintainReply:
    return MaintainReply(Status.OK, report=json.dumps({"did": request.action, "bytes_freed": 4096}))


async def never_ends(_: MaintainRequest) -> MaintainReply:
    await asyncio.Event().wait()
    raise AssertionError


def raising(error: Exception) -> Maintain:
    async def answer(_: MaintainRequest) -> MaintainReply:
        raise error

    return answer


def replying(status: Status, detail: str = "", report: str = "") -> Maintain:
    async def answer(_: MaintainRequest) -> MaintainReply:
        return MaintainReply(status, detail, report)

    return answer


def give(monkeypatch: pytest.MonkeyPatch, maintain_of: Callable[[str], Maintain | None]) -> None:
    """Every bookie that is served from now on has this upkeep, whatever its daemon meant to give it."""

    def service(*arguments: Any, **named: Any) -> BookieService:
        asked = inspect.signature(BookieService).bind(*arguments, **named)
        asked.arguments["maintain"] = maintain_of(asked.arguments["requests"].bookie_id)
        return BookieService(*asked.args, **asked.kwargs)

    monkeypatch.setattr(daemon, "BookieService", service)


@asynccontextmanager
async def on_maintained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Maintain, bookies: int = 1
) -> AsyncIterator[tuple[InProcessCluster, Upkeep]]:
    """Bookies that answer so."""
    upkeep = Upkeep(answer)
    give(monkeypatch, upkeep.of)
    async with cluster_of(tmp_path, bookies) as cluster:
        yield cluster, upkeep


def ref(cluster: InProcessCluster, name: str = "b1") -> BookieRef:
    return BookieRef(name, cluster.running[name].cookie.incarnation)


async def tell_nobody(ledger_id: int) -> None:
    """For a scrubber whose findings stay in its report."""
