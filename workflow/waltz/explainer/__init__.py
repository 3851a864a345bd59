"""Scores and answers explained: the code behind `waltz.Explainer` and `waltz explain`."""
