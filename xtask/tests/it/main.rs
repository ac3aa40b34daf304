//! Checks of the workspace as a whole.

mod layers;
