//! The one binary as a library: assembling components into processes. `main.rs` only parses arguments.
