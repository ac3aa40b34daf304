//! `cargo xtask bench`: builds the measuring program and the measured one, both optimized, and runs it. It is a
//! separate crate (`bench`), so that other tasks do not compile its dependencies.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

/// Measure the API server or the propagation; see `cargo xtask bench help`.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Bench {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

impl Bench {
    pub fn run(self) -> anyhow::Result<()> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let build = ["build", "--release", "--package", "karmada", "--package", "bench"];
        let status = Command::new(cargo).args(build).status().context("running cargo")?;
        ensure!(status.success(), "the release build failed");
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"), PathBuf::from);
        let status = Command::new(target.join("release/bench")).args(self.args).status().context("running bench")?;
        ensure!(status.success(), "the measurement failed");
        Ok(())
    }
}
