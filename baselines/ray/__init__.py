"""Learning under Ray: actors sample on CPUs, learners update."""
