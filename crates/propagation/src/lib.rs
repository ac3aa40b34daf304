//! The propagation pipeline as pure functions: match, bind, override, render, aggregate status.
