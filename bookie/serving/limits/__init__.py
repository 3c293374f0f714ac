"""Admission control: limits, quotas and rate limits for what peers use of a bookie."""
