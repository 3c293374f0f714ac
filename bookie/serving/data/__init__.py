"""Server side of the data protocol: protocol detection, TLS accept, sessions, appends, calls, gRPC proxy."""
