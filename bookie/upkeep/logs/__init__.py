"""The auditor's work on logs: retention, and the deletion of ledgers that no log needs."""
