"""Command-line options that name a journal, its acceptors, and the shape of its ledgers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import click
from click.core import ParameterSource

from ..config.settings import settings_now
from ..messages.help import Headings
from ..options import (
    DIGESTS,
    all_of,
    made_of,
    metadata_option,
    naming_a_store,
    password_option,
    shape_options,
)

if TYPE_CHECKING:
    from qjm_compat.aio import QuorumJournalManager
    from qjm_compat.config import AcceptorConfig, JournalConfig
    from qjm_compat.transfer.inspection.inspector import JournalInspector

T = TypeVar("T")

SHAPE: Headings = {"Ledgers of new segments": ("--ensemble", "--write-quorum", "--ack-quorum", "--digest")}
"""The heading in `--help` for the options that `journal_place_to_write` adds."""

TXID_MAX = 2**63 - 2


@dataclass(frozen=True, slots=True)
class JournalPlace:
    """A journal as named on the command line. `acceptors` is empty for the single default acceptor."""

    journal_id: str
    metadata_uri: str
    acceptors: tuple[AcceptorConfig, ...]
    config: JournalConfig

    def manager(self) -> QuorumJournalManager:
        """Returns the journal's manager, not opened yet."""
        from qjm_compat.aio import QuorumJournalManager

        acceptors = self.acceptors or None
        return QuorumJournalManager(
            self.metadata_uri, self.journal_id, acceptors=acceptors, config=self.config
        )

    def with_manager(self, work: Callable[[QuorumJournalManager], Awaitable[T]]) -> T:
        """Runs the work on the journal's manager. Raises ValueError if acceptors are missing from the command line."""

        async def run() -> T:
            await self.check_named()
            async with self.manager() as manager:
                return await work(manager)

        return asyncio.run(run())

    def inspector(self) -> JournalInspector:
        from qjm_compat.transfer.inspection.inspector import JournalInspector

        return JournalInspector(self.journal_id, self.all_acceptors(), self.config)

    def all_acceptors(self) -> tuple[AcceptorConfig, ...]:
        from qjm_compat.aio import DEFAULT_ACCEPTOR
        from qjm_compat.config import AcceptorConfig

        return self.acceptors or (AcceptorConfig(DEFAULT_ACCEPTOR, self.metadata_uri),)

    async def check_named(self) -> None:
        """Raises ValueError if the metadata has acceptors that were not named, because all acceptors count towards a
        majority."""
        named = {(one.name, one.metadata_uri) for one in self.all_acceptors()}
        for uri in sorted({uri for _, uri in named}):
            there = await self._acceptors_in(uri)
            if more := sorted(name for name in there if (name, uri) not in named):
                new = sorted(name for name, at in named if at == uri and name not in there and self.acceptors)
                raise ValueError(self._not_named(more, new))

    def _not_named(self, more: Sequence[str], new: Sequence[str]) -> str:
        """Returns advice about acceptors that were not named; a new name on the command line may be meant to replace
        one of them."""
        left_out, names = ", ".join(more), ", ".join(new)
        if new:
            return (
                f"journal {self.journal_id} has the acceptors {left_out}, which were not named, and none called "
                f"{names}: an acceptor is identified by its name, so a replacement of {left_out} takes its name, "
                f"too (`journal serve --name {more[0]}`)"
            )
        return f"journal {self.journal_id} has more acceptors: give --acceptor for all of them, including {left_out}"

    async def check_known(self) -> None:
        """Raises ValueError for named acceptors of which the metadata has no record, if it has records of other
        acceptors."""
        for one in self.acceptors:
            there = await self._acceptors_in(one.metadata_uri)
            if there and one.name not in there:
                raise ValueError(
                    f"the metadata has no acceptor {one.name} of journal {self.journal_id}, "
                    f"only {', '.join(sorted(there))}"
                )

    async def _acceptors_in(self, uri: str) -> set[str]:
        """Returns the acceptors in a metadata store; empty if the store is down, because a majority may not need it."""
        from qjm_compat.errors import JournalUnavailable
        from qjm_compat.transfer.inspection.inspector import journals_in

        try:
            return {name for journal_id, name in await journals_in(uri) if journal_id == self.journal_id}
        except JournalUnavailable:
            return set()


def journal_config(
    password: bytes,
    digest: str = "crc32c",
    ensemble_size: int = 3,
    write_quorum: int | None = None,
    ack_quorum: int | None = None,
) -> JournalConfig:
    """Reads `[journal]`; options for the shape of ledgers override it. Raises UsageError.

    Environment variables of `[journal]` override options that the file sets.
    """
    from qjm_compat.config import JournalConfig

    context, settings = click.get_current_context(), settings_now()
    given, in_environment = settings.values("journal"), settings.in_environment("journal")

    def is_said(name: str) -> bool:
        source = context.get_parameter_source(name)
        is_in_file = source is ParameterSource.DEFAULT_MAP and name not in in_environment
        return is_in_file or source in (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)

    shape = {
        "ensemble_size": ensemble_size,
        "write_quorum": write_quorum,
        "ack_quorum": ack_quorum,
        "digest": DIGESTS[digest],
    }
    typed = {name: value for name, value in shape.items() if name not in given or is_said(name)}
    try:
        return settings.made("journal", JournalConfig, password=password, **typed)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _journal_id(_: click.Context, argument: click.Parameter, journal_id: str) -> str:
    from metadata import keys

    try:
        return keys.check_name(journal_id)
    except ValueError as error:
        raise click.BadParameter(str(error), param=argument) from error


def _acceptors(
    context: click.Context, option: click.Parameter, given: tuple[str, ...]
) -> tuple[tuple[str, str | None], ...]:
    found: dict[str, str | None] = {}
    for one in given:
        name, separator, uri = one.partition("=")
        if not name or (separator and not uri):
            raise click.BadParameter(f"{one!r} is not NAME or NAME=URI", param=option)
        if name in found:
            raise click.BadParameter(f"{name!r} is given twice", param=option)
        found[name] = naming_a_store(context, option, uri or None)
    return tuple(found.items())


def _place(
    journal_id: str,
    metadata_uri: str,
    acceptors: tuple[tuple[str, str | None], ...],
    config: JournalConfig,
) -> JournalPlace:
    from qjm_compat.config import AcceptorConfig

    named = tuple(AcceptorConfig(name, uri or metadata_uri) for name, uri in acceptors)
    return JournalPlace(journal_id, metadata_uri, named, config)


journal_place = all_of(
    made_of("config", journal_config),
    made_of("place", _place),
    click.argument("journal_id", metavar="JOURNAL", callback=_journal_id),
    metadata_option,
    click.option(
        "--acceptor",
        "acceptors",
        metavar="NAME[=URI]",
        multiple=True,
        callback=_acceptors,
        help="One of several acceptors, and the URI of its cluster's metadata; repeat the option for each acceptor.",
    ),
    password_option,
)
"""Adds JOURNAL, --metadata, --acceptor and --password-file; the command gets them as `place`."""

segment_shape_options = shape_options("each segment's ledger", "batch")

journal_place_to_write = all_of(journal_place, segment_shape_options)
"""Adds the options of `journal_place`, and those for the shape of the ledgers of new segments."""
