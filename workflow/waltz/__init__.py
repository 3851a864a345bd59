"""How much vision, and how much text, does a vision-language model use? The library behind the workflow."""

__version__ = "0.1.0"
