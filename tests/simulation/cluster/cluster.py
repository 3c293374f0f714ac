"""A simulated cluster and its users: everything that can go wrong, then calm, then nothing left."""

from __future__ import annotations

import asyncio

from ledgers import loop_thread
from ledgers.blocking import back_pressure, bulk_writer
from ledgers.creating.new_ledger import NewLedger
from ledgers.integrity.stretching import salt_of_this_process, stretched
from metadata.records.ledger_record import DigestType
from tests.simulation.engine.app_threads import AppThreads
from tests.simulation.engine.loop import OWNER
from tests.simulation.shells.actors import Board, Setting

from .adapters import in_virtual_time
from .calm import Calm
from .faults import Faults
from .hosts import Hosts
from .journals import JOURNALS, JournalSeen, format_journals
from .plan import Plan
from .site import ClusterSite
from .users import User

FAULTY_SECONDS = 60.0
"""From here on, after the bookies have begun, everything works."""

PASSWORD = b"a password"
"""Of ledgers that have one."""


class Cluster:
    """One run's."""

    def __init__(self, site: ClusterSite) -> None:
        self.site = site
        self.hosts = Hosts(site)
        self.threads = AppThreads(site.host_loop, site.world.stream("app threads"))
        self.users: dict[str, User] = {}

    async def run(self) -> None:
        """Raises Violation."""
        OWNER.set("run")
        with (
            in_virtual_time(self.hosts),
            self.threads.instead_of_real_ones(loop_thread, bulk_writer, back_pressure),
        ):
            try:
                await self._run(self.site.plan)
            finally:
                self.threads.end_all()

    async def _run(self, plan: Plan) -> None:
        await self.hosts.begin()
        site, setting = self.site, self._setting(plan)
        journals = {user.does: JournalSeen(user.does) for user in plan.users if user.does in JOURNALS}
        await format_journals(setting, journals)
        site.world.note("begins")
        self.users = {
            user.name: User(site, self.hosts.seen, self.threads, setting, user, journals)
            for user in plan.users
        }
        site.expect_weather(plan.figures, plan.rules)
        faults = Faults(site, self.hosts, self.users)
        await asyncio.sleep(FAULTY_SECONDS)
        await Calm(site, self.hosts, self.users, faults, setting, journals).comes()

    def _setting(self, plan: Plan) -> Setting:
        stretched(PASSWORD, salt_of_this_process())  # beforehand: in virtual time nobody waits for a thread
        ensemble_size, write_quorum, ack_quorum = plan.shape
        new = NewLedger(
            ensemble_size=ensemble_size,
            write_quorum=write_quorum,
            ack_quorum=ack_quorum,
            digest=DigestType.HMAC_SHA256 if plan.has_password else DigestType.CRC32C,
            password=PASSWORD if plan.has_password else b"",
        )
        return Setting(
            self.site,
            self.site.watch,
            Board(),
            new,
            has_big_entries=plan.has_big_entries,
            cancels_share=plan.cancels,
            recover_at=plan.recover_at,
            calm=asyncio.Event(),
        )
