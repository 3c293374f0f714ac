"""Other ledgers of a bookie: somebody next door who writes to it directly, so that its log rolls and its index fills.

Frames come in any order, overlap, carry a verifier, ask for no sync at once, or tell only a last-add-confirmed; now and
then a ledger is fenced. What the bookie owes for them is checked by `promises` like everything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bookie.wire import NO_ENTRIES, Credential, Frame, LacRequest, ReadRequest, Status
from tests.bookie.entries import columns_of, entry_of, lac_of
from tests.simulation.engine.chance import Stream

if TYPE_CHECKING:
    from .bookie import WetBookie

LEDGERS = (8, 9, 10)
PROTECTED = 10
"""The ledger that has a password."""

VERIFIED = Credential(b"v" * 32, b"p" * 64)
BURSTS_MAX = 6
REQUESTS_PER_BURST_MAX = 6
SECONDS = 240.0
"""Over this time the requests are spread."""

STRANGERS = 0.1
"""A share of the requests comes from somebody without the ledger's password, or with another."""

PAGE_BYTES = 400


class Neighbour:
    """Bursts of requests at drawn times; whoever is down then gets none."""

    def __init__(self, bookie: WetBookie, chance: Stream) -> None:
        self._bookie = bookie
        self._chance = chance
        for _ in range(chance.below(BURSTS_MAX + 1)):
            at = chance.uniform(0, SECONDS)
            bookie.world.after(at, lambda: bookie.deliver(self.burst))

    def burst(self) -> None:
        """Several requests at once: the log takes them as one group, if they fit."""
        for _ in range(1 + self._chance.below(REQUESTS_PER_BURST_MAX)):
            self._ask()

    def _ask(self) -> None:
        chance, ledger_id = self._chance, self._chance.choice(LEDGERS)
        is_owner = chance.unit() >= STRANGERS
        credential = VERIFIED if (ledger_id == PROTECTED) is is_owner else Credential()
        incarnation = self._bookie.ref.incarnation
        draw = chance.unit()
        if draw < 0.08:
            request = LacRequest(incarnation, ledger_id, fence=True, credential=credential)
            self._bookie.last_add_confirmed(request, _heard)
        elif draw < 0.25:
            read = ReadRequest(
                incarnation, ledger_id, chance.below(20), 40, PAGE_BYTES, credential=credential
            )
            self._bookie.read(read, _heard)
        else:
            self._bookie.append(incarnation, self._frame(ledger_id, credential), _told)

    def _frame(self, ledger_id: int, credential: Credential) -> Frame:
        chance = self._chance
        first, step = chance.below(30), 1 + chance.below(3)
        ids = range(first, first + step * (1 + chance.below(4)), step)
        columns = columns_of([entry_of(ledger_id, entry_id, 5 + entry_id * 3) for entry_id in ids])
        if chance.happens(0.1):
            columns = NO_ENTRIES
        lac = lac_of(first) if chance.happens(0.5) else None
        return Frame(ledger_id, columns, lac, chance.happens(0.2), credential, chance.happens(0.4))


def _heard(_: object) -> None:
    """The bookie's promises are what counts."""


def _told(_: Status, __: str) -> None:
    """The same for an append."""
