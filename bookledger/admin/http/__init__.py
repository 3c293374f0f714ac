"""A daemon's HTTP server: connection limits, authorization, handlers."""
