//! Scheduling decisions as pure functions: filter, score, spread, divide. It never awaits and never reads a clock; the
//! time is in its input.
