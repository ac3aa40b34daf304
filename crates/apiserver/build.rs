//! Collects the descriptions of the built-in types and their fields from the source of `k8s-openapi`, which carries
//! Kubernetes' own, into sorted lines `definition<unit separator>field<unit separator>description` for
//! `src/documents/openapi/descriptions.rs`.

#[path = "build/extract.rs"]
mod extract;
#[path = "build/locate.rs"]
mod locate;

use std::path::{Path, PathBuf};

use extract::Rows;

/// The version of Kubernetes whose texts are used, as `k8s-openapi` names its folder.
const VERSION: &str = "v1_36";

fn main() {
    for input in ["build.rs", "build", "../../Cargo.lock"] {
        println!("cargo::rerun-if-changed={input}");
    }
    if let Err(error) = collect() {
        println!("cargo::error=descriptions of built-in fields: {}", error.replace('\n', " "));
        std::process::exit(1);
    }
}

fn collect() -> Result<(), String> {
    let folder = |variable| std::env::var_os(variable).map(PathBuf::from).ok_or(format!("{variable} is not set"));
    let (out, package) = (folder("OUT_DIR")?, folder("CARGO_MANIFEST_DIR")?);
    let workspace = package.join("../..");
    let version = locate::source(&workspace, &out)?.join("src").join(VERSION);
    let mut rows = Rows::new();
    add_folder(&version, &mut rows)?;
    let list = version.join("list.rs");
    let text = read(&list)?;
    extract::add_documented(&text, "io.k8s.List", &["items", "metadata"], &mut rows)?;
    let lines: String = rows.iter().map(|((definition, field), text)| line(definition, field, text)).collect();
    let file = out.join("descriptions");
    std::fs::write(&file, lines).map_err(|error| format!("{}: {error}", file.display()))
}

fn add_folder(folder: &Path, rows: &mut Rows) -> Result<(), String> {
    let bad = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in std::fs::read_dir(folder).map_err(bad)? {
        let path = entry.map_err(bad)?.path();
        if path.is_dir() {
            add_folder(&path, rows)?;
        } else {
            extract::add_type(&read(&path)?, rows).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// A line is a row; the reader turns the separator back.
fn line(definition: &str, field: &str, text: &str) -> String {
    format!("{definition}\u{1f}{field}\u{1f}{}\n", text.replace('\n', "\u{1e}"))
}
