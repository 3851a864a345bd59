"""English grammar that foils need: number, agreement, noun phrases, statements."""
