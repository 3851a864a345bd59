"""Stage `reporting`: tables and figures, ours beside the published ones."""
