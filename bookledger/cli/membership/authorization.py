"""Authorizes and audits operations on a whole cluster: a certificate, if any, must be an admin's.

The operations are written to the metadata store, which does not check these certificates: etcd authorizes by its own
roles.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bookie.wire.trust.certificates import BadCertificates, Certificates, directory_of_environment
from bookie.wire.trust.identity import NoIdentity, Peer
from bookie.wire.trust.roles import Right
from ledgers.errors import LedgerError, NotAllowed
from metadata.audit import DONE, Act


@contextmanager
def acting(what: str, **about: int | str | None) -> Iterator[None]:
    """Audits the operation that its block performs. Raises NotAllowed if the process has a certificate with a role
    other than admin."""
    me = _me()
    if why := me.may_not(Right.MAINTAIN):
        me.record_audit(Act.REFUSED, f"{what}: {why}", **about)
        raise NotAllowed(why)
    try:
        yield
    except Exception as error:
        me.record_audit(Act.ORDER, str(error), order=what, **about)
        raise
    me.record_audit(Act.ORDER, DONE, order=what, **about)


def _me() -> Peer:
    directory = directory_of_environment()
    try:
        identity = None if directory is None else Certificates(directory).identity
    except (BadCertificates, NoIdentity) as error:
        raise LedgerError(str(error)) from error
    return Peer.of("", identity)
