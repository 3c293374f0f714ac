"""A bookie as a daemon: its identity, its registration, the gRPC service."""
