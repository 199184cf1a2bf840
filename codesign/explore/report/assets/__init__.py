"""The HTML, style sheet and scripts of a report's page."""
