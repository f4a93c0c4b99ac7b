"""The command line of memreplay: one subcommand a file, imported when it is asked for."""
