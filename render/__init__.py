"""Players of the tile pictures: a pygame window, GIFs and screenshots."""
