"""Numbers that people answer with, in digits or letters."""

import re

import inflect

NUMBERS = {str(inflect.engine().number_to_words(number)): number for number in range(100)} | {"none": 0}
DIGITS = re.compile(r"\d{1,4}")


def number_of(answer: str) -> int | None:
    """The number that an answer consists of ("3", "Three.", "None."); None where it says anything else."""
    words = answer.strip().rstrip(".!").lower()
    return int(words) if DIGITS.fullmatch(words) else NUMBERS.get(words)
