"""The tuner: spaces of schedules searched with a learned model, on the simulator and on processors."""
