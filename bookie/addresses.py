"""Parses and formats addresses, `host:port`; an IPv6 host is in brackets: `[::1]:3181`."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from socket import inet_aton

PEER_PREFIX_BITS = 64
"""Length of the IPv6 prefix that identifies a peer in per-peer limits: one machine can have all addresses of a /64."""


def join_host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_host_port(address: str) -> tuple[str, int]:
    """Splits an address into host (without brackets) and port. Raises ValueError."""
    host, _, port = address.rpartition(":")
    return strip_brackets(host), int(port)


def strip_brackets(host: str) -> str:
    """Strips the brackets from an IPv6 address."""
    return host[1:-1] if host[:1] + host[-1:] == "[]" else host


def parse_ipv6(host: str) -> IPv6Address | None:
    """Parses an IPv6 address; returns None for anything else."""
    try:
        found = ip_address(strip_brackets(host))
    except ValueError:
        return None
    return found if isinstance(found, IPv6Address) else None


def peer_of(host: str) -> str:
    """Returns the key that identifies the host's peer in per-peer limits: the host, or the /64 prefix of an IPv6
    address."""
    address = parse_ipv6(host.partition("%")[0])
    if address is None or address.is_loopback:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    prefix = int(address) >> (128 - PEER_PREFIX_BITS) << (128 - PEER_PREFIX_BITS)
    return f"{IPv6Address(prefix)}/{PEER_PREFIX_BITS}"


def check_host(host: str) -> None:
    """Raises ValueError for anything other than a host, such as a URL or an address with a port."""
    if "/" in host:
        raise ValueError(f"{host} is not a host name or address: pass only the host, not a URL")
    if ":" in host and parse_ipv6(host) is None:
        raise ValueError(f"{host} has a port: pass only the host here, and the port with --port")


def is_wildcard(host: str) -> bool:
    """Returns whether the host means every address of a machine: a server can listen on it, but no client can connect
    to it."""
    if (address := parse_ipv6(host)) is not None:
        return address.is_unspecified
    try:
        return host == "*" or inet_aton(host) == bytes(4)  # this also detects 0, 0.0 and 0x0
    except OSError:
        return False
