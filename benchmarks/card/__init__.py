"""Every measurement that needs a GPU, as jobs of one command (`jaxenvs.benchmarks.card`)."""
