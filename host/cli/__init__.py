"""The command line: one file for each group of verbs; `main` mounts them."""
