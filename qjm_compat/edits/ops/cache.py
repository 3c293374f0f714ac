"""Ops on cache directives and on the pools that share the cache memory. In a modification, None leaves a field
unchanged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ..fields.field_types import I16, I64, Mode, String, flagged
from ..op import RetriedOp, edit_op


@dataclass(frozen=True, slots=True)
class CacheDirective:
    """A path to be cached in memory."""

    directive_id: I64
    path: String | None = None
    replication: I16 | None = None
    pool: String | None = None
    expires_ms: I64 | None = None


@dataclass(frozen=True, slots=True)
class CachePool:
    """A share of the cache memory, and its owner."""

    pool: String
    owner: String | None = None
    group: String | None = None
    mode: Mode | None = None
    limit_bytes: I64 | None = None
    lifetime_max_ms: I64 | None = None
    default_replication: I16 | None = None


Directive = Annotated[CacheDirective, flagged(CacheDirective, required=1)]
Pool = Annotated[CachePool, flagged(CachePool, required=1)]


@edit_op(34, "OP_ADD_CACHE_DIRECTIVE")
class AddCacheDirective(RetriedOp):
    directive: Directive


@edit_op(39, "OP_MODIFY_CACHE_DIRECTIVE")
class ModifyCacheDirective(RetriedOp):
    directive: Directive


@edit_op(35, "OP_REMOVE_CACHE_DIRECTIVE")
class RemoveCacheDirective(RetriedOp):
    directive_id: I64


@edit_op(36, "OP_ADD_CACHE_POOL")
class AddCachePool(RetriedOp):
    info: Pool


@edit_op(37, "OP_MODIFY_CACHE_POOL")
class ModifyCachePool(RetriedOp):
    info: Pool


@edit_op(38, "OP_REMOVE_CACHE_POOL")
class RemoveCachePool(RetriedOp):
    """Removes a cache pool with all its directives."""

    pool: String
