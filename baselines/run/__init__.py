"""A run: its command line, its loop, its log and checkpoints, whatever the learner."""
