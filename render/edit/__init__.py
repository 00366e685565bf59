"""The editor of levels: its model, its keys, its pictures and its command."""
