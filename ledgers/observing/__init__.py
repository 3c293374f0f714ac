"""Observability of a client: metrics and OpenTelemetry spans. Imported only if enabled."""
