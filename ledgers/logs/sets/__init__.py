"""Sets of logs: keys are spread over several logs, which the members of a group share."""
