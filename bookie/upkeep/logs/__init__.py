"""What the auditor does for logs: retention, and deleting ledgers that no log needs."""
