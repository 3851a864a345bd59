"""CV-Probes: captions with context-dependent verbs, and their four conditions."""
