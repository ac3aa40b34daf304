//! The `karmadactl` command line as a library: data on stdout, everything else on stderr.

pub mod agent;
mod api_resources;
mod cli;
mod context;
mod cordon;
mod departure;
mod diagnosis;
mod error;
mod get;
mod interpret;
pub mod join;
mod placement;
mod register;
mod resources;
mod resume;
mod scope;
mod servers;
mod table;
mod template;
mod token;
mod unjoin;
mod unregister;
pub mod version;

pub use cli::{reference_page, run};
use context::Context;
pub use error::Error;
