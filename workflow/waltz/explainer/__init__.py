"""One image with a text, explained: the code behind `waltz.explain` and `waltz explain`."""
