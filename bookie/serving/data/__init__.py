"""Server side of the data protocol, with protocol detection, TLS accept and gRPC proxy."""
