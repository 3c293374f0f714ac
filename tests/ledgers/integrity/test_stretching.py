"""Passwords are slow to guess, and cost who knows them little."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from ledgers.integrity import stretching
from ledgers.integrity.stretching import Stretching, salt_of_this_process, stretched


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretching, "_kept", {})


@pytest.fixture
def derivations(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The salts that passwords were stretched with."""
    made: list[bytes] = []

    def counted(salt: bytes, *parameters: int) -> Scrypt:
        made.append(salt)
        return Scrypt(salt, *parameters)

    monkeypatch.setattr(stretching, "Scrypt", counted)
    return made


async def test_many_ledgers_opened_together_are_stretched_for_once_a_salt(derivations: list[bytes]) -> None:
    salts, stretches = [b"one salt", b"another"] * 20, Stretching()
    secrets = await asyncio.gather(*[stretches.secret_of(salt, b"secret") for salt in salts])
    assert len(set(secrets)) == 2
    assert sorted(derivations) == [b"another", b"one salt"]


async def test_the_loop_goes_on_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, loop_went_on = stretched, Event()

    def waiting(password: bytes, salt: bytes) -> bytes:
        assert loop_went_on.wait(10)
        return whole(password, salt)

    monkeypatch.setattr(stretching, "stretched", waiting)
    task = asyncio.create_task(Stretching().secret_of(b"salt", b"secret"))
    await asyncio.sleep(0)
    loop_went_on.set()
    assert await task == whole(b"secret", b"salt")


async def test_an_application_whose_threads_all_wait_for_it_is_not_held_up() -> None:
    loop, done = asyncio.get_running_loop(), Event()
    with ThreadPoolExecutor(1) as only_thread:
        loop.set_default_executor(only_thread)
        waiting = asyncio.create_task(asyncio.to_thread(done.wait, 10))
        await asyncio.sleep(0)
        await Stretching().secret_of(b"salt", b"secret")
        done.set()
        assert await waiting


async def test_who_gives_up_leaves_the_work_to_others_and_no_second_one_begins(
    derivations: list[bytes],
) -> None:
    stretches = Stretching()
    impatient = asyncio.create_task(stretches.secret_of(b"salt", b"secret"))
    patient = asyncio.create_task(stretches.secret_of(b"salt", b"secret"))
    await asyncio.sleep(0)
    impatient.cancel()
    await patient
    assert impatient.cancelled()
    assert derivations == [b"salt"]


def test_another_salt_or_password_is_another_secret() -> None:
    assert len({stretched(p, s) for p in (b"a", b"b") for s in (b"x", b"y")}) == 4


def test_one_salt_serves_all_ledgers_of_a_process() -> None:
    assert salt_of_this_process() == salt_of_this_process() != b""


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stretching, "KEPT_MAX", 2)
    for salt in (b"a", b"b", b"c"):
        stretched(b"secret", salt)
    assert len(stretching._kept) == 1


async def test_no_password_needs_no_stretching(derivations: list[bytes]) -> None:
    stretches = Stretching()
    assert await stretches.secret_of(b"salt", b"") == b""
    assert derivations == []
