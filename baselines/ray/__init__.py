"""Training on Ray: actors sample on CPUs, and learners update the weights."""
