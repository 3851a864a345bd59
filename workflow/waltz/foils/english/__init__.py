"""English grammar for foils: number, agreement, noun phrases, statements."""
