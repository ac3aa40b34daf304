//! What the crate decides, as seen from outside.

mod runs;
