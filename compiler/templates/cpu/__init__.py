"""Schedule templates for processors (CPUs)."""
