"""`LedgerClient.salvage_ledger`: who may, and what is given of entries that have a password or are encrypted."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from ledgers import BadEncryptionKey, Columns, DigestType, Gap, LedgerClient, LedgerState, Unauthorized
from ledgers.aio import LedgerClient as AioClient
from ledgers.aio import Salvage
from metadata.records.ledger_record import LedgerRecord
from tests.support.in_process import QUICK, on_bookies

PASSWORD = b"correct horse"
KEY = bytes(range(32))
SEALED = replace(QUICK, encryption_key=KEY)


async def parts_of(salvage: Salvage) -> tuple[list[bytes], list[Gap]]:
    payloads: list[bytes] = []
    gaps: list[Gap] = []
    async for part in salvage.parts():
        if isinstance(part, Columns):
            payloads += [bytes(payload) for _, payload, _ in part.rows()]
        else:
            gaps.append(part)
    return payloads, gaps


async def test_it_takes_the_password(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3) as (cluster, client):
        writer = await client.create_ledger(password=PASSWORD, digest=DigestType.HMAC_SHA256)
        for n in range(3):
            await writer.append(b"%d" % n)
        await cluster.stop("b2")
        await cluster.stop("b3")
        for wrong in (b"", b"another"):
            with pytest.raises(Unauthorized):
                await client.salvage_ledger(writer.ledger_id, password=wrong)
        salvage = await client.salvage_ledger(writer.ledger_id, password=PASSWORD)
        assert await parts_of(salvage) == ([b"0", b"1", b"2"], [])
        assert sorted(salvage.silent) == ["b2", "b3"]


async def test_it_opens_what_is_encrypted(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3, SEALED) as (cluster, client):
        writer = await client.create_ledger()
        for n in range(3):
            await writer.append(b"%d" % n)
        await writer.close()
        assert (await parts_of(await client.salvage_ledger(writer.ledger_id)))[0] == [b"0", b"1", b"2"]
        async with AioClient(cluster.uri, config=QUICK) as keyless:
            with pytest.raises(BadEncryptionKey):
                await keyless.salvage_ledger(writer.ledger_id)


async def test_what_the_key_does_not_open_is_a_gap(tmp_path: Path) -> None:
    """Somebody who can append to the ledger, and has not its key, has put an entry there."""
    async with on_bookies(tmp_path, 3, SEALED) as (_, client):
        writer = await client.create_ledger()
        for n in range(2):
            await writer.append(b"%d" % n)
        cipher, writer._cipher = writer._cipher, None
        await writer.append(b"forged, in the clear")
        writer._cipher = cipher
        await writer.append(b"3")
        await writer.close()
        payloads, gaps = await parts_of(await client.salvage_ledger(writer.ledger_id))
        assert (payloads, gaps) == ([b"0", b"1", b"3"], [Gap(2, 2, ("decryption",))])


async def test_an_ordinary_program_salvages_and_nothing_is_changed(tmp_path: Path) -> None:
    async with on_bookies(tmp_path, 3) as (cluster, client):
        writer = await client.create_ledger()
        await writer.append(b"there")
        before = await client.describe_ledger(writer.ledger_id)

        def work() -> tuple[LedgerRecord, list[int]]:
            with LedgerClient(cluster.uri, config=QUICK) as blocking:
                salvage = blocking.salvage_ledger(writer.ledger_id)
                ids = [n for part in salvage.parts() if isinstance(part, Columns) for n in part.ids]
                assert (salvage.silent, salvage.unsure) == ({}, [])
                return salvage.record, ids

        assert await asyncio.to_thread(work) == (before, [0])
        await writer.append(b"not fenced")
        assert (await client.describe_ledger(writer.ledger_id)).state is LedgerState.OPEN
