"""Asks bookies about ledgers that are not closed, for `ledger show` and `ledger list`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from bookledger.cluster.open_ledgers import ASK_SECONDS_MAX, Open, ask_bookies
from ledgers.aio import LedgerClient
from metadata.records.ledger_record import LedgerRecord

from ..config.clients import client_config

Asked = Callable[[Sequence[LedgerRecord]], Open]


@contextmanager
def asking_bookies(metadata_uri: str) -> Iterator[Asked]:
    """Asks for a page of ledgers at a time, with a client that is made for the first that is not closed.

    After a page that took all the time that there is for one no more are asked: of bookies that hang nobody waits
    again and again.
    """
    client: LedgerClient | None = None
    is_late = False

    def asked(records: Sequence[LedgerRecord]) -> Open:
        nonlocal client, is_late
        if is_late or all(record.is_closed for record in records):
            return {}
        client = client or LedgerClient(metadata_uri, config=client_config())
        began = time.monotonic()
        seen = runner.run(ask_bookies(client, records))
        is_late = time.monotonic() - began >= ASK_SECONDS_MAX
        return seen

    with asyncio.Runner() as runner:
        try:
            yield asked
        finally:
            if client is not None:
                runner.run(client.close())
