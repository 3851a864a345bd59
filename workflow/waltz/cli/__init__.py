"""The command `waltz`, one module per subcommand."""
