"""What the commands of `jaxenvs` share."""
