"""Noun phrases to which a quantifier can be given: one thing, or several, that a caption counts.

Begin with `refusals`, whose table has one line for each rule; the other modules have the rules.
"""
