"""Which instruments are exported with more than their items hold: apart, since the Snakefile asks for it each time."""

NEEDS_ORIGINAL = ("existence", "plurality", "coreference-standard", "coreference-clean")
"""Instruments with a field that only the row of the source holds."""
