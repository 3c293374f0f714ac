"""Admission control: limits, quotas and rate limits on the resources of a bookie that peers use."""
