"""The presets: configurations that are part of the package, a TOML file each."""
