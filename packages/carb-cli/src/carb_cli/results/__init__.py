"""Results as others can check them: entries whose numbers are computed again from rows."""
