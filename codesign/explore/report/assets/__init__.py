"""The page of a report: HTML, style and scripts."""
