"""The second layer: clusters whose bookies are the real codec, log, index and reading, on simulated disks."""
