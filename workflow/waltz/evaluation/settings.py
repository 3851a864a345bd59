"""Settings in which models score or answer, and the roles of texts: the values of columns that evaluation writes."""

ALIGNMENT = "alignment"
"""Setting of encoders' scores; instrument of items whose foil is the text of another image."""
PERPLEXITY = "perplexity"
"""Setting of scores by language models without an image."""
SINGLE = "single"
"""Setting of decoders' answers to the question whether a text describes its image."""
PAIRWISE = "pairwise"
"""Setting of decoders' choices between caption and foil."""
CHOICE = "choice"
"""Setting of answers to questions with labels about text alone."""
AFTER_COT = "-after-cot"
"""Suffix of the setting of answers after a chain of thought."""
MISMATCHED = "mismatched"
"""Role of a foil that is the text of another image."""
FOILS = ("foil", MISMATCHED)
"""Roles of the text that is wrong for its image."""
RIGHT_PREDICTION = {"caption": "match", "foil": "mismatch", MISMATCHED: "mismatch"}
"""Right prediction for a text, by its role."""
EXPECTED_PREDICTION = {True: "match", False: "mismatch"}
"""Right prediction for a row of CV-Probes, by its column `match`."""
