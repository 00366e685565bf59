"""Exploration bonuses, which are rewards for novelty: RND, NovelD and E3B."""
