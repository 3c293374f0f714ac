"""Replay as a batch: the reader that plans on the driver, and the command's job."""
