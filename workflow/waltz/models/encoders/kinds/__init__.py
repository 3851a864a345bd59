"""One module for each kind of encoder, found by its name, with `load(spec, device)`."""
