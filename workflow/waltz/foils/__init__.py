"""Stage `foils`: every candidate that a caption, statement, dialogue or frame gives, one module per instrument."""
