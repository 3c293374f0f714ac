"""Metrics of metadata calls, and log lines about outages."""
