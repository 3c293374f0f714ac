"""One journal on real bookies, and what is done with it and directories."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from qjm_compat.aio import DEFAULT_ACCEPTOR, QuorumJournalManager
from qjm_compat.config import AcceptorConfig
from qjm_compat.transfer.checking.fsck import check_journal
from qjm_compat.transfer.errors import TransferRefused
from qjm_compat.transfer.inspection.inspector import JournalInspector
from qjm_compat.transfer.journal_export import Exported, export_directory
from qjm_compat.transfer.journal_import import Imported, ImportOptions, import_directory
from tests.support.in_process import QUICK, InProcessCluster, cluster_of


class Place:
    """One journal of a cluster, and its manager and survey, made anew for each use."""

    def __init__(self, cluster: InProcessCluster, names: tuple[str, ...] = (DEFAULT_ACCEPTOR,)) -> None:
        self.uri = cluster.uri
        self.acceptors = [AcceptorConfig(name, cluster.uri) for name in names]

    def manager(self) -> QuorumJournalManager:
        return QuorumJournalManager(self.uri, "ns1", acceptors=self.acceptors, client_config=QUICK)

    def inspector(self) -> JournalInspector:
        return JournalInspector("ns1", self.acceptors, client_config=QUICK)

    async def bring(
        self,
        directory: Path,
        *,
        finalize: bool = True,
        allow_gaps: bool = False,
        take_over: bool = False,
        from_txid: int = 0,
    ) -> Imported:
        options = ImportOptions(
            finalize=finalize, allow_gaps=allow_gaps, take_over=take_over, from_txid=from_txid
        )
        async with self.inspector() as seen, self.manager() as manager:
            return await import_directory(manager, seen, directory, options)

    async def fetch(
        self,
        folder: Path,
        *,
        from_txid: int | None = None,
        in_progress: bool = False,
        allow_gaps: bool = False,
    ) -> Exported:
        async with self.manager() as manager:
            return await export_directory(
                manager, folder, from_txid=from_txid, in_progress=in_progress, allow_gaps=allow_gaps
            )

    async def segments(self) -> list[tuple[int, int, bool]]:
        async with self.manager() as manager:
            streams = await manager.select_input_streams(0, in_progress_ok=True, gaps_ok=True)
            return [(s.first_txid, s.last_txid, s.is_in_progress) for s in streams]

    async def promised(self) -> int:
        async with self.inspector() as inspector:
            return max(one.state.last_promised_epoch for one in (await inspector.look_at_all()).values())

    async def check(self) -> None:
        """Raises unless the journal is whole."""
        async with self.inspector() as seen:
            found = await check_journal(seen, orphan_age_seconds=0)
        assert [str(problem) for problem in found.problems] == []

    async def refused(self, directory: Path, **options: bool) -> str:
        with pytest.raises(TransferRefused) as refusal:
            await self.bring(directory, **options)
        return str(refusal.value)


@asynccontextmanager
async def on_a_journal(tmp_path: Path, names: tuple[str, ...] = (DEFAULT_ACCEPTOR,)) -> AsyncIterator[Place]:
    (tmp_path / "cluster").mkdir()
    async with cluster_of(tmp_path / "cluster", 3) as cluster:
        yield Place(cluster, names)
