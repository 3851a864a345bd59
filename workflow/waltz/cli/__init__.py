"""The command `waltz`: its subcommands, and what several of them share."""
