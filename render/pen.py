"""A `Pen` writes the labels, rows, paragraphs and bars of a panel from top to bottom."""

from .canvas import INK, MUTED, RGB, TEXT, Canvas

MARGIN = 14  # margin around the content of a panel, in points


class Pen:
    """Writes a column of text on a canvas from top to bottom; lengths are in points."""

    def __init__(self, canvas: Canvas, width: float, left: float = 0, top: float = 0) -> None:
        self.canvas = canvas
        self.left, self.right = left + MARGIN, left + width - MARGIN
        self.top = top

    def space(self, height: float) -> None:
        self.top += height

    def label(self, text: str) -> None:
        self.canvas.write(text, (self.left, self.top), MUTED, 14)
        self.top += 20

    def row(self, name: str, value: str) -> None:
        room = self.right - self.canvas.write(name, (self.left, self.top), MUTED, 15) - 10
        for line in self.canvas.wrapped(value, 15, room):
            self.canvas.write(line, (self.right, self.top), TEXT, 15, right=True)
            self.top += 21

    def paragraph(self, text: str, colour: RGB, size: float) -> None:
        for line in self.canvas.wrapped(text, size, self.right - self.left):
            self.canvas.write(line, (self.left, self.top), colour, size)
            self.top += size + 4
        self.top += 2

    def chip(self, text: str, colour: RGB) -> None:
        width = self.canvas.width(text, 14)
        self.canvas.rect(colour, (self.left, self.top, width + 18, 22), radius=11)
        self.canvas.write(text, (self.left + 9, self.top + 4), INK, 14)
        self.top += 32

    def bar(self, name: str, share: float, colour: RGB) -> None:
        self.canvas.write(name, (self.left, self.top), TEXT, 14)
        left, width = self.left + 72, self.right - self.left - 116
        self.canvas.rect(INK, (left, self.top + 1, width, 12), radius=3)
        self.canvas.rect(colour, (left, self.top + 1, width * share, 12), radius=3)
        self.canvas.write(f"{share:.0%}", (self.right, self.top), MUTED, 14, right=True)
        self.top += 19
