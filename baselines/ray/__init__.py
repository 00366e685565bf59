"""Training on Ray in many processes: actors sample on CPUs, and learners update the weights."""
