//! Simulated members as their users see them: objects in, objects out, on virtual time.

mod harness;
mod start;
