"""The accelerator as a target."""
