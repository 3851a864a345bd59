"""Nouns that are not used as one of several things."""

import pytest

from waltz.foils.english.quantifiable import countability as rules
from waltz.foils.english.quantifiable import refusals


@pytest.mark.parametrize(
    ("caption", "noun", "rule"),
    [
        ("A train leaves Athens at night.", "night", rules.is_uncounted_singular),
        ("A barber holds scissors.", "scissors", rules.is_uncounted_plural),
        ("A man in jeans reads.", "jeans", rules.is_uncounted_plural),
        ("A screen shows the information.", "information", rules.is_uncounted_singular),
        ("The police are on a bridge.", "police", rules.is_uncounted_singular),
        ("A bird in flight.", "flight", rules.is_uncounted_singular),
        ("A pupil goes to school by bus.", "school", rules.is_uncounted_singular),
        ("A hat on his head", "head", rules.is_uncounted_singular),
        ("A tree on the left side of a house.", "side", rules.is_uncounted_singular),
        ("A boat drifts in the background.", "background", rules.is_uncounted_singular),
        ("A girl is taller than the rest.", "rest", rules.is_uncounted_singular),
        ("A street during the day.", "day", rules.is_uncounted_singular),
        ("Jelly in the shape of a fish.", "shape", rules.is_uncounted_singular),
        ("A boy dressed in orange.", "orange", rules.is_uncounted_singular),
        ("Gorillas stand on all fours.", "fours", rules.is_number_noun),
        ("A man searches the internet.", "internet", rules.is_uncounted_singular),
        ("A man in his forties rides a bike.", "forties", rules.is_number_noun),
        ("Cattle drinking water from a trough.", "cattle", rules.is_uncounted_singular),
        ("A couple lies down while others walk.", "others", rules.is_uncounted_plural),
        ("A man drives an own car.", "car", rules.has_own),
        ("A man hikes in the woods.", "woods", rules.is_uncounted_plural),
        ("Ivy climbs a wall.", "ivy", rules.is_uncounted_singular),
        ("A boat at the right edge of a photo.", "edge", rules.is_uncounted_singular),
        ("A tower stands at a distance.", "distance", rules.is_uncounted_singular),
        ("A ship on the horizon.", "horizon", rules.is_uncounted_singular),
        ("Blue skies over a lake.", "skies", rules.is_uncounted_plural),
        ("A clear sky over a lake.", "sky", rules.is_uncounted_singular),
        (
            "A cloud bears a resemblance to a horse.",
            "resemblance",
            rules.is_uncounted_singular,
        ),
    ],
)
def test_an_uncounted_noun_is_refused(caption, noun, rule, find_refusals):
    assert find_refusals(caption)[noun] == (refusals.NOT_COUNTED, rule)
