"""What the shop keeps: its handbook, and what customers asked."""

from django.db import models


class Passage(models.Model):
    """A rule of the staff handbook."""

    text = models.TextField()

    def __str__(self) -> str:
        return self.text


class Question(models.Model):
    """A customer's question; its run is found by its id."""

    text = models.TextField(max_length=2_000)
    asked_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.text
