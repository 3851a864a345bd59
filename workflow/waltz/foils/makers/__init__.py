"""From the rows of a source to all candidates of an instrument, one module an instrument or group of them."""
