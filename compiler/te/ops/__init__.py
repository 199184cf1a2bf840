"""The operators, a file each, with functions that return loop programs; inputs and outputs of most are tensors in
blocks of channels."""
