"""No bytes make a parser do anything but answer or refuse in words: the corpus, and what Hypothesis makes of it."""

from __future__ import annotations

import inspect

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bookie.wire import codec
from bookie.wire.data import handshake
from metadata.records import journal_record

from . import network
from .target import CORPUS
from .targets import TARGETS

CORPUS_FILE_BYTES_MAX = 4096
CORPUS_FILES_MAX = 60


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_is_understood_or_refused(name: str) -> None:
    target = TARGETS[name]
    assert target.corpus(), "python -m tests.fuzz --write-corpus"
    for data in target.corpus():
        target.try_on(data)


@pytest.mark.parametrize("name", TARGETS)
def test_its_seeds_are_good(name: str) -> None:
    for seed in TARGETS[name].seeds():
        try:
            TARGETS[name].parse(seed)
        except TARGETS[name].errors as error:
            pytest.skip(f"this one stands for what is refused: {error}")


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_whatever_becomes_of_it_is_understood_or_refused(name: str, data: st.DataObject) -> None:
    target = TARGETS[name]
    good = data.draw(st.sampled_from(target.corpus()))
    at = data.draw(st.integers(0, len(good)))
    gone = data.draw(st.integers(0, 8))
    target.try_on(good[:at] + data.draw(st.binary(max_size=12)) + good[at + gone :])


def test_every_decoder_of_messages_and_records_has_a_target() -> None:
    decoders = {
        name.removeprefix("decode_")
        for module in (handshake, journal_record)
        for name, _ in inspect.getmembers(module, inspect.isfunction)
        if name.startswith("decode_")
    }
    named = {name.removeprefix("journal_").removesuffix("_segment") for name in TARGETS}
    assert decoders <= named, decoders - named
    assert codec.MESSAGES.keys() == set(map(type, network.MESSAGES.values()))


def test_the_corpus_is_small_and_belongs_to_targets() -> None:
    assert {path.name for path in CORPUS.iterdir()} <= set(TARGETS)
    for directory in CORPUS.iterdir():
        files = list(directory.iterdir())
        assert len(files) <= CORPUS_FILES_MAX
        assert all(file.stat().st_size <= CORPUS_FILE_BYTES_MAX for file in files)
