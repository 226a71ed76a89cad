"""What runs found: gathered, as JSON, on the terminal and as one HTML file."""
