"""What happens in a run, as a value that prints as Python, and how a seed becomes one."""
