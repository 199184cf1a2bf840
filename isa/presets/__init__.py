"""The named configurations that ship with the package, one TOML file each."""
