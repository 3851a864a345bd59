"""Files from the web: addresses, checksums, the download lock file, and the transfer within limits."""
