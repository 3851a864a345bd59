"""Jobs: their log files, run records, devices and memory, and what stops them or a second run."""
