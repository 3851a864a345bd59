"""Questions, prompt templates and the prompts and generations that come of them."""
