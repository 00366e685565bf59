"""`jaxenvs train`: command line, training loop and log of all learners."""
