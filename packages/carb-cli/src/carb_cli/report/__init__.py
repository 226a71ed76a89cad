"""The results of runs: gathered, as JSON, on the terminal and as one HTML file."""
