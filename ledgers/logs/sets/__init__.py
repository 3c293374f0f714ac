"""Sets of logs: keys spread over several logs, which members of a group share."""
