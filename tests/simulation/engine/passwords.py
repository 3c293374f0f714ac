"""The password of ledgers that have one."""

from __future__ import annotations

from ledgers.integrity.stretching import salt_of_this_process, stretched

PASSWORD = b"a password"


def stretched_password() -> bytes:
    """It, stretched beforehand: in virtual time nobody waits for a thread."""
    stretched(PASSWORD, salt_of_this_process())
    return PASSWORD
