"""The embedded world: drawn scenes whose truth is known, in the formats of the real data sets."""
