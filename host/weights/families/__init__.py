"""One short description for each architecture."""
