"""The whole test suite."""

import os

# Before gRPC is loaded, which reads it then: what starts Java forks, and gRPC's own code would run in that child.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
