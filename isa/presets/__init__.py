"""The presets: configurations that are part of the package. Each is a TOML file in this folder, and has its name in
`isa.config.PRESETS`.
"""
