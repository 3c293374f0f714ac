"""The bookie's server: daemon, data directory, registration, data protocol and gRPC service."""
