"""Records of trials: their fields and files, their application to compilation, and transfer learning from them."""
