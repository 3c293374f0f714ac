"""The auditor's work on logs: retention, and deleting ledgers that no log needs."""
