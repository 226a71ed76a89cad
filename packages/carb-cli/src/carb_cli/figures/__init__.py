"""Charts of a report, by Altair: for the page as inline SVG, for papers as SVG and PNG files."""
