"""The HTTP endpoints of daemons for operators: health, readiness, metrics, API; also logging, tracing, systemd."""
