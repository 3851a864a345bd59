"""The report page: one HTML file with all results."""
