"""HTTP endpoints of daemons for operators (health, readiness, metrics, API), and logging, tracing and systemd."""
