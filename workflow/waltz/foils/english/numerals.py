"""Numbers as answers, in digits or letters."""

import re

import inflect

NUMBERS = {str(inflect.engine().number_to_words(number)): number for number in range(100)} | {"none": 0}
DIGITS = re.compile(r"\d{1,4}")


def parse_number(answer: str) -> int | None:
    """Return the number that an answer consists of ("3", "Three.", "None."); None for any other answer."""
    words = answer.strip().rstrip(".!").lower()
    return int(words) if DIGITS.fullmatch(words) else NUMBERS.get(words)
