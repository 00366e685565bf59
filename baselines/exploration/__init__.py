"""Exploration bonuses: RND, NovelD and E3B."""
