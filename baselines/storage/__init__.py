"""Directory of a run: its configuration, log, checkpoints and saved policies."""
