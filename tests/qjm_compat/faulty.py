"""Journal managers whose calls to their acceptors fail by a plan, over models of acceptors or over real bookies."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast

from qjm_compat import AcceptorConfig, JournalConfig
from qjm_compat.acceptor.journal import Journal
from qjm_compat.acceptor.programs.acceptor_effects import Effect, SwapState
from qjm_compat.acceptor.unavailable_acceptor import AbsentAcceptor
from qjm_compat.aio import QuorumJournalManager
from qjm_compat.errors import JournalError, JournalUnavailable, QuorumFailed, RuleViolated
from qjm_compat.hadoop.client.acceptor import RemoteAcceptor
from qjm_compat.manager.loggers import LoggerSet
from qjm_compat.requests import (
    Acceptor,
    AcceptRecovery,
    GetJournalState,
    NewEpoch,
    R,
    Request,
)
from tests.qjm_compat.gates import InFront
from tests.qjm_compat.journals import ACCEPTORS, JOURNAL, NAMESPACE
from tests.qjm_compat.model import ModelAcceptor, ModelDisk
from tests.support.in_process import QUICK

FLIPS = 0.1
"""How often a channel that is up goes down before a call, or one that is down comes up."""

PERSISTING_FAILS = 0.1
"""How often an acceptance fails before it is written, and, if not so, after it."""

STATE_FAILS, EPOCH_FAILS = 0.1, 0.4
"""How often the two calls for a new epoch fail."""


class Plan:
    """Decides over each call to one acceptor; one such as this lets all pass, and counts them."""

    def __init__(self) -> None:
        self.calls = 0

    def before(self, request: Request[Any]) -> None:
        """Raises JournalUnavailable for a call that never gets there."""
        self.calls += 1

    def persisting_fault(self, request: Request[Any]) -> str:
        """When the write of an acceptance fails: "before" it has happened, "after" it, or "" for never."""
        return ""


class FailsAt(Plan):
    """The calls of these numbers fail, counted from 1."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: frozenset[int] = frozenset()

    def before(self, request: Request[Any]) -> None:
        super().before(request)
        if self.calls in self.numbers:
            raise JournalUnavailable(f"Injected: call {self.calls} fails")


class Down(Plan):
    """Fails all calls while it is down."""

    def __init__(self) -> None:
        super().__init__()
        self.is_down = False

    def before(self, request: Request[Any]) -> None:
        super().before(request)
        if self.is_down:
            raise JournalUnavailable("Injected: it is down")


class UpAndDown(Plan):
    """Hadoop's randomised test: the channel flips, and acceptances fail around the moment that decides."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._rng = random.Random(seed)
        self._is_up = True

    def before(self, request: Request[Any]) -> None:
        if self._rng.random() < FLIPS:
            self._is_up = not self._is_up
        if not self._is_up:
            raise JournalUnavailable("Injected: faking being down")

    def persisting_fault(self, request: Request[Any]) -> str:
        if not isinstance(request, AcceptRecovery):
            return ""
        if self._rng.random() < PERSISTING_FAILS:
            return "before"
        return "after" if self._rng.random() < PERSISTING_FAILS else ""


class EpochFaults(Plan):
    """The calls for a new epoch fail."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self._rng = rng

    def before(self, request: Request[Any]) -> None:
        chances: Mapping[type[Request[Any]], float] = {GetJournalState: STATE_FAILS, NewEpoch: EPOCH_FAILS}
        if self._rng.random() < chances.get(type(request), 0):
            raise JournalUnavailable("Injected fault")


class FaultyAcceptor(InFront):
    """An acceptor behind a plan."""

    def __init__(self, acceptor: Acceptor, plan: Plan) -> None:
        """Gets between the acceptor and its disk, so that a swap can fail there."""
        super().__init__(acceptor)
        self.plan = plan
        self._persisting_fault = ""
        inner: Any = acceptor
        if isinstance(inner, ModelAcceptor):
            inner.perform = self._on_model(type(inner).perform.__get__(inner))  # type: ignore[method-assign, assignment]
        else:
            inner._perform = self._on_ledgers(type(inner)._perform.__get__(inner))

    async def call(self, request: Request[R]) -> R:
        self.plan.before(request)
        self._persisting_fault = self.plan.persisting_fault(request)
        try:
            return await super().call(request)
        finally:
            self._persisting_fault = ""

    def _on_model(self, perform: Callable[[Effect], Any]) -> Callable[[Effect], Any]:
        def performed(effect: Effect) -> Any:
            self._fail("before", effect)
            outcome = perform(effect)
            self._fail("after", effect)
            return outcome

        return performed

    def _on_ledgers(self, perform: Callable[[Effect], Any]) -> Callable[[Effect], Any]:
        async def performed(effect: Effect) -> Any:
            self._fail("before", effect)
            outcome = await perform(effect)
            self._fail("after", effect)
            return outcome

        return performed

    def _fail(self, when: str, effect: Effect) -> None:
        if when == self._persisting_fault and isinstance(effect, SwapState) and effect.state.accepted:
            raise JournalUnavailable(f"Injected: faking fault {when} persisting the accepted recovery")


class Setting(Protocol):
    """A journal that manager after manager is opened on, each with plans of its own."""

    acceptors: int

    def manager(self, plans: Sequence[Plan]) -> QuorumJournalManager: ...


class ModelManager(QuorumJournalManager):
    """The product's manager; its acceptors are models."""

    def __init__(self, models: Sequence[ModelAcceptor], plans: Sequence[Plan]) -> None:
        acceptors = [AcceptorConfig(model.name, "") for model in models]
        super().__init__("", JOURNAL, namespace=NAMESPACE, acceptors=acceptors)
        self._models = models
        self._plans = plans

    async def connect(self) -> None:
        models = {model.name: model for model in self._models}
        self._journals.update(cast("dict[str, Journal | RemoteAcceptor | AbsentAcceptor]", models))
        faulty = [FaultyAcceptor(model, plan) for model, plan in zip(self._models, self._plans, strict=True)]
        self._loggers = LoggerSet(faulty, self.config)


class OnModels:
    """Three acceptors in processes of their own; or one, in a process of every writer."""

    def __init__(self, acceptors: int) -> None:
        self.acceptors = acceptors
        self.disks = {name: ModelDisk() for name in ACCEPTORS[:acceptors]}
        self._processes = self._new_processes()

    def manager(self, plans: Sequence[Plan]) -> QuorumJournalManager:
        return ModelManager(self._new_processes() if self.acceptors == 1 else self._processes, plans)

    def _new_processes(self) -> list[ModelAcceptor]:
        return [ModelAcceptor(JOURNAL, name, self.disks) for name in self.disks]


class FaultyManager(QuorumJournalManager):
    """The product's manager and acceptors, with plans between them."""

    def __init__(self, uri: str, names: Sequence[str], plans: Sequence[Plan], journal_id: str) -> None:
        super().__init__(
            uri,
            journal_id,
            namespace=NAMESPACE,
            acceptors=[AcceptorConfig(name, uri) for name in names],
            config=JournalConfig(ensemble_size=2 if len(names) == 1 else 1),
            client_config=QUICK,
        )
        self._plans = plans

    async def connect(self) -> None:
        await super().connect()
        journals = list(self._journals.values())
        faulty = [FaultyAcceptor(journal, plan) for journal, plan in zip(journals, self._plans, strict=True)]
        self._loggers = LoggerSet(faulty, self.config)


class OnBookies:
    """Acceptors on ledgers, each writer's in its own process."""

    def __init__(self, uri: str, acceptors: int, journal_id: str = JOURNAL) -> None:
        self.acceptors = acceptors
        self._uri = uri
        self._journal_id = journal_id

    def manager(self, plans: Sequence[Plan]) -> QuorumJournalManager:
        return FaultyManager(self._uri, ACCEPTORS[: self.acceptors], plans, self._journal_id)


def check_only_injected(error: JournalError) -> None:
    """Nothing went wrong that was not made to: somebody names the injected fault, and nobody a broken rule."""
    assert "Injected" in str(error), str(error)
    every = [error, *(error.errors.values() if isinstance(error, QuorumFailed) else ())]
    assert not any(isinstance(one, RuleViolated) for one in every), str(error)
