"""What the command line shares: its commands, their parser, pages of ids and completion."""
