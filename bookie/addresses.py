"""Hosts and ports as text: `host:port`, and an IPv6 address in brackets, `[::1]:3181`."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address

PEER_PREFIX_BITS = 64
"""Of an IPv6 address: whoever has one has all that begin with these bits."""


def joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parted(address: str) -> tuple[str, int]:
    """Host, without brackets, and port. Raises ValueError."""
    host, _, port = address.rpartition(":")
    return bare(host), int(port)


def bare(host: str) -> str:
    """Without the brackets of an IPv6 address."""
    return host[1:-1] if host[:1] + host[-1:] == "[]" else host


def ipv6(host: str) -> IPv6Address | None:
    """The IPv6 address that this is, if it is one."""
    try:
        found = ip_address(bare(host))
    except ValueError:
        return None
    return found if isinstance(found, IPv6Address) else None


def peer_of(host: str) -> str:
    """Whom a limit for one peer counts: a host, or all that have the prefix of an IPv6 address."""
    address = ipv6(host.partition("%")[0])
    if address is None or address.is_loopback:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    prefix = int(address) >> (128 - PEER_PREFIX_BITS) << (128 - PEER_PREFIX_BITS)
    return f"{IPv6Address(prefix)}/{PEER_PREFIX_BITS}"
