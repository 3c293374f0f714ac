"""Applications that move a ledger to an object store, and back, whoever uses it."""

from __future__ import annotations

import asyncio

from ledgers.aio import ReadHandle
from tests.simulation.shells.users import User, read_into

URL = "s3://archive"


class OffloadUser(User):
    """Copies it, has bookies drop it, brings it back, reads it, and deletes objects that nobody needs."""

    async def use(self, ledger_id: int) -> None:
        client, password = self.client, self.setting.password
        await asyncio.sleep(self.chance.unit() * 25)
        if self.chance.happens(0.8):
            await self.attempt("recover", client.open_ledger(ledger_id, password=password))
        for _ in range(4 + self.chance.below(8)):
            if self.has_left:
                return
            await self.pause()
            match self.chance.below(6):
                case 0 | 1 | 2:
                    keep = self.chance.happens(0.3)
                    await self.attempt(
                        "offload",
                        client.offload_ledger(ledger_id, URL, password=password, keep_on_bookies=keep),
                    )
                case 3:
                    await self.attempt("recall", client.recall_ledger(ledger_id, password=password))
                case 4:
                    await self.attempt("remove", client.remove_unneeded_objects())
                case _:
                    opened = await self.attempt(
                        "open", client.open_ledger(ledger_id, recovery=False, password=password)
                    )
                    if isinstance(opened, ReadHandle):
                        await self.attempt("read", read_into(self.name, self.watched, opened.read()))
