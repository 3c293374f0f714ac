"""A bookie's metrics: counters, latency histograms, log lines for slow appends."""
