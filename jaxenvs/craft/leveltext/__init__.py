"""Text of Craft's worlds; see `form` for the format."""
