"""Formats a journal at all its acceptors: either all of them are new, or the new ones join the existing ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .errors import BadJournalState, HalfFormatted, JournalError, QuorumFailed
from .manager.loggers import LoggerSet
from .manager.proposer import Proposer
from .opening import OpenAcceptors
from .requests import NamespaceInfo
from .sync.joining import epochs_above, format_to_join, needed_of


@dataclass(frozen=True, slots=True)
class Formatted:
    """The result of formatting a journal. `acceptors` were formatted; `were_formatted` already had the journal."""

    namespace: NamespaceInfo
    acceptors: tuple[str, ...]
    were_formatted: tuple[str, ...] = ()


class Formatting:
    """Formats one journal, using the channels of its manager."""

    def __init__(
        self, journal_id: str, loggers: LoggerSet, proposer: Proposer, opened: OpenAcceptors
    ) -> None:
        self._journal_id = journal_id
        self._loggers = loggers
        self._proposer = proposer
        self._opened = opened

    async def run(self, namespace: NamespaceInfo, *, force: bool) -> Formatted:
        """Formats the journal; see `QuorumJournalManager.format`."""
        names = self._loggers.acceptors.names
        holding = () if force else await self._loggers.run(self._proposer.formatted())
        joining = [name for name in names if name not in holding]
        if holding and joining:
            return await self._join(holding, joining, namespace)
        try:
            await self._loggers.run(self._proposer.format(namespace, force=force))
        except QuorumFailed as error:
            if error.done:
                is_enough = len(error.done) >= needed_of(len(names))
                raise HalfFormatted(
                    self._journal_id, error.done, error.errors, with_force=force or not is_enough
                ) from error
            raise
        return Formatted(namespace, names)

    async def _join(
        self, holding: Sequence[str], joining: Sequence[str], namespace: NamespaceInfo
    ) -> Formatted:
        """Formats the acceptors that hold nothing. Ensures that no majority that includes them can lack edits; see
        sync/joining.py.

        The other acceptors keep all their contents and their writer; the next writer gets a higher epoch.
        """
        held = {one.name: one for one in self._opened.on_ledgers if one.name in holding}
        if not held:
            raise BadJournalState(
                f"nothing was done: JournalNodes {', '.join(holding)} hold journal {self._journal_id}, and "
                f"{', '.join(joining)} do not. If these are bookledger's JournalNodes, add the missing ones with "
                f"`bookledger journal format`, passing --acceptor with the name of each JournalNode"
            )
        seen = {name: await one.segments_held() for name, one in held.items()}
        # Raises an error before anything is changed.
        format_to_join(self._journal_id, seen, joining, namespace)
        above = epochs_above(seen)
        seen = {name: await one.make_room_for_another(above) for name, one in held.items()}
        request = format_to_join(self._journal_id, seen, joining, namespace)
        done: list[str] = []
        errors: dict[str, Exception] = {}
        for logger in self._loggers.loggers:
            if logger.name not in joining:
                continue
            try:
                await logger.call(request)
            except JournalError as error:
                errors[logger.name] = error
            else:
                done.append(logger.name)
        if errors:
            raise HalfFormatted(self._journal_id, (*holding, *done), errors)
        return Formatted(request.namespace, tuple(done), tuple(holding))
