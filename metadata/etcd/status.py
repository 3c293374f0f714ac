"""Health and versions of an etcd cluster's members."""

from __future__ import annotations

import asyncio
import re

import grpc

from ..errors import StoreTooOld
from ..store import StoreHealth
from . import etcd_pb2 as pb
from .channel import EtcdChannels, unary
from .errors import EtcdRefused, NotSent

VERSION_MIN = (3, 4)
"""Older ones lack lease checkpoints and the hasleader check of single calls."""

UNSAFE = (((3, 4), (3, 4, 22)), ((3, 5), (3, 5, 6)))
"""Version ranges, the end excluded, whose members may diverge after a crash, by etcd's own postmortems."""

_REFUSES = (
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.INVALID_ARGUMENT,
)


async def health_of(channels: EtcdChannels, endpoints: tuple[str, ...], seconds: float) -> StoreHealth:
    """Queries every endpoint. Raises StoreTooOld; a member that does not answer is reported, and no error."""
    replies = await asyncio.gather(*(_asked(channels, one, seconds) for one in endpoints))
    members, versions, size = {}, set(), 0
    for endpoint, reply in zip(endpoints, replies, strict=True):
        members[endpoint] = reply if isinstance(reply, str) else _told(reply)
        if not isinstance(reply, str):
            versions.add(reply.version)
            size = max(size, reply.dbSize)
    doubts = {_doubt(found) for found in versions} - {""}
    return StoreHealth("etcd", ", ".join(sorted(versions)), size, members, "; ".join(sorted(doubts)))


async def _asked(channels: EtcdChannels, endpoint: str, seconds: float) -> pb.StatusResponse | str:
    attempt = unary("/etcdserverpb.Maintenance/Status", pb.StatusRequest(), pb.StatusResponse.FromString)
    try:
        channel = await channels.connected(endpoint, seconds)
        metadata, _ = await channels.credentials(endpoint, channel, seconds)
        return await attempt(channel, metadata, seconds)
    except grpc.aio.AioRpcError as error:
        if error.code() in _REFUSES:
            return "alive; does not tell more"
        return f"{error.details()} ({error.code().name})"
    except EtcdRefused as refused:
        return f"alive; refuses us: {refused.details}"
    except NotSent as error:
        return str(error)


def _told(reply: pb.StatusResponse) -> str:
    role = "leader" if reply.leader == reply.header.member_id else "follower"
    return f"{role}, {'; '.join(reply.errors)}" if reply.errors else role


def _doubt(version: str) -> str:
    """A warning about the version, or "". Raises StoreTooOld."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    if found is None:
        return ""  # a custom build
    number = tuple(map(int, found.groups()))
    if number < VERSION_MIN:
        raise StoreTooOld(f"etcd is version {version}; use {'.'.join(map(str, VERSION_MIN))} or newer")
    if any(first <= number < fixed for first, fixed in UNSAFE):
        return f"etcd is version {version}, whose members may differ after a crash: upgrade it"
    return ""
