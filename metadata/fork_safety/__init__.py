"""Fork safety: a forked child cannot use its parent's objects, and loads its own copy of gRPC."""
