"""The report of a study: tables compared with the paper values, figures, and one HTML page."""
