"""Fork safety: a child refuses objects of its parent, and loads its own copy of gRPC."""
