"""The store unit: moves accumulators to DRAM, with or without the post-processing pipeline (hw/README.md section 8)."""

from .unit import StoreUnit

__all__ = ["StoreUnit"]
