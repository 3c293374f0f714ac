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
    """Yields a function that asks bookies about a page of ledgers. Its client is created for the first ledger that is
    not closed.

    Once the bookies of a page have taken the whole time limit, bookies are not asked about any further ledgers, so that
    the caller does not wait repeatedly for bookies that hang.
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
