"""vdla: one configuration drives the RTL, a cycle-exact simulator and a compiler of a tensor accelerator."""
