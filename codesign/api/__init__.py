"""What the front door `vdla` opens: each module is one thing that a user does from Python."""
