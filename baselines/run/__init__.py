"""`jaxenvs train`: its command line, training loop and log, for any learner."""
