"""Command `jaxenvs train`: the command line, training loop and log of all learners."""
