"""Shared code of the command line: table of commands, parser, pages of ids, shell completion."""
