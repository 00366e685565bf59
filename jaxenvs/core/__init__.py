"""The base class `Env`, the registry, the spaces, `VectorEnv` for batches, and the wrappers."""
