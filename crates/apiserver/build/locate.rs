//! Finds the source of `k8s-openapi` wherever Cargo has it: in the registry's folder, in a vendored one, or at a
//! patched path.
//!
//! The crate is no dependency of the program, since it would be compiled. It is one of `transport` for targets that do
//! not exist, which makes Cargo lock and download it.

use std::path::{Path, PathBuf};
use std::process::Command;

const CRATE: &str = "k8s-openapi";

/// The folder of the crate.
///
/// # Errors
/// What Cargo reported, and what to do.
pub fn source(workspace: &Path, out: &Path) -> Result<PathBuf, String> {
    let lock_file = workspace.join("Cargo.lock");
    let lock = std::fs::read_to_string(&lock_file).map_err(|error| format!("{}: {error}", lock_file.display()))?;
    let version = locked(&lock).ok_or_else(|| format!("{} names no {CRATE}", lock_file.display()))?;
    // A package of its own that depends on this crate alone: the metadata of the workspace would require all crates of
    // its tests to be downloaded.
    let package = out.join("locate");
    let manifest = package.join("Cargo.toml");
    let text = format!(
        "[package]\nname = \"locate\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[lib]\npath = \"lib.rs\"\n\n\
         [dependencies.{CRATE}]\nversion = \"={version}\"\ndefault-features = false\n\n[workspace]\n"
    );
    let written = std::fs::create_dir_all(&package)
        .and_then(|()| std::fs::write(&manifest, text))
        .and_then(|()| std::fs::write(package.join("lib.rs"), ""))
        .and_then(|()| std::fs::write(package.join("Cargo.lock"), &lock));
    written.map_err(|error| format!("{}: {error}", package.display()))?;
    let cargo = std::env::var_os("CARGO").ok_or("CARGO is not set")?;
    let host = std::env::var("HOST").map_err(|error| format!("HOST: {error}"))?;
    let mut command = Command::new(cargo);
    command.args(["metadata", "--format-version", "1", "--offline", "--filter-platform", &host, "--manifest-path"]);
    // In the workspace, whose configuration may replace the registry.
    let output = command.arg(&manifest).current_dir(workspace).output();
    let output = output.map_err(|error| format!("cargo metadata: {error}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!(
            "cargo metadata: {why}\n{CRATE} {version} is not here: `cargo fetch --locked` downloads it"
        ));
    }
    let metadata = String::from_utf8(output.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    manifests(&metadata)
        .find_map(|path| path.parent().filter(|_| is_of(&path)).map(Path::to_owned))
        .ok_or_else(|| "cargo metadata does not list it".into())
}

/// The version in a lock file.
pub fn locked(lock: &str) -> Option<&str> {
    let mut lines = lock.lines().skip_while(|line| *line != format!("name = \"{CRATE}\"")).skip(1);
    lines.next()?.strip_prefix("version = \"")?.strip_suffix('"')
}

/// The manifests that metadata name.
pub fn manifests(metadata: &str) -> impl Iterator<Item = PathBuf> {
    // A path contains no quote in practice; the escape of a backslash is undone.
    let parts = metadata.split("\"manifest_path\":\"").skip(1);
    parts.filter_map(|part| Some(PathBuf::from(part.split_once('"')?.0.replace("\\\\", "\\"))))
}

/// Whether a manifest is the crate's.
fn is_of(manifest: &Path) -> bool {
    let text = std::fs::read_to_string(manifest).unwrap_or_default();
    let package = text.lines().skip_while(|line| line.trim() != "[package]").skip(1);
    package.take_while(|line| !line.starts_with('[')).any(|line| line.trim() == format!("name = \"{CRATE}\""))
}
