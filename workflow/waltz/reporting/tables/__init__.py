"""Tables of our numbers next to the paper values."""
