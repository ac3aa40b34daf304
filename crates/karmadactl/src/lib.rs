//! The `karmadactl` command line as a library: data on stdout, everything else on stderr.
//!
//! So far: `join`, `unjoin`, `cordon`, `uncordon` and `version`.

mod cli;
mod context;
mod cordon;
mod error;
pub mod join;
mod resources;
mod unjoin;
mod version;

pub use cli::run;
use context::Context;
pub use error::Error;
