"""How a Craft world looks: drawings of blocks, creatures and things, the sprites of an edition,
the tiles of a state, and pictures of it by day and by night."""
