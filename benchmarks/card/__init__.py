"""The command `jaxenvs.benchmarks.card`: it runs every measurement that needs a GPU, as jobs."""
