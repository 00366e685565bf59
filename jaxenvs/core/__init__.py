"""The contract, the registry, the spaces, the batch layer and the wrappers."""
