"""Who is answered together with others is told once, and when all are answered."""

from __future__ import annotations

import asyncio

from bookie.storage.reply_batch import ReplyBatch


async def test_who_is_answered_with_others_is_told_when_all_are_answered_and_before_the_turn_ends() -> None:
    answers, told = ReplyBatch(), list[str]()
    with answers:
        answers.call_soon(lambda: told.append("one"))
        answers.call_soon(lambda: told.append("another"))
        assert told == []
    assert told == ["one", "another"]


async def test_who_is_answered_alone_is_told_at_the_end_of_the_turn() -> None:
    answers, told = ReplyBatch(), list[str]()
    answers.call_soon(lambda: told.append("one"))
    assert told == []
    await asyncio.sleep(0)
    assert told == ["one"]


async def test_one_that_cannot_be_told_harms_neither_others_nor_the_block() -> None:
    answers, told = ReplyBatch(), list[str]()
    complaints: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    gone = OSError("gone")

    def fail() -> None:
        raise gone

    with answers:
        answers.call_soon(fail)
        answers.call_soon(lambda: told.append("another"))
    assert told == ["another"]
    assert [one["exception"] for one in complaints] == [gone]
