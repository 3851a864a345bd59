"""Stage `filters`: what models say about candidates: is it grammatical, does it contradict its caption."""
