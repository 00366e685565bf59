"""The command `jaxenvs.benchmarks.card`: measurements on a GPU, each as a separate job."""
