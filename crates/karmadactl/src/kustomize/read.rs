//! Files and directories of a kustomization, through a reader.

use std::path::{Path, PathBuf};

use apimachinery::yaml;
use serde_json::Value;

use super::BuildError;

/// The source of a kustomization's files.
pub trait Reader {
    /// The absolute path without links and dots.
    ///
    /// # Errors
    /// When the file does not exist.
    fn resolve(&self, path: &Path) -> std::io::Result<PathBuf>;
    fn is_directory(&self, path: &Path) -> bool;
    /// # Errors
    /// The file cannot be read.
    fn read(&self, path: &Path) -> std::io::Result<Vec<u8>>;
}

/// A kustomization that is being built.
pub struct Place<'a> {
    pub reader: &'a dyn Reader,
    pub root: &'a Path,
}

/// An entry of `resources`.
pub enum Entry {
    Directory(PathBuf),
    File(PathBuf),
}

/// The resolved path of a directory.
pub fn directory(reader: &dyn Reader, path: &Path) -> Result<PathBuf, BuildError> {
    let shown = path.display();
    if is_remote(&path.to_string_lossy()) && reader.resolve(path).is_err() {
        let what = format!("the remote kustomization {:?}", path.to_string_lossy());
        return Err(BuildError::Unsupported { kustomization: shown.to_string(), what });
    }
    let found = reader.resolve(path).map_err(|error| BuildError::invalid(shown, error))?;
    if !reader.is_directory(&found) {
        return Err(BuildError::invalid(path.display(), "a kustomization is a directory"));
    }
    Ok(found)
}

/// URLs, and the short forms of Git repositories.
fn is_remote(text: &str) -> bool {
    const PREFIXES: [&str; 4] = ["git@", "git::", "github.com/", "github.com:"];
    text.contains("://") || text.contains("?ref=") || PREFIXES.iter().any(|prefix| text.starts_with(prefix))
}

impl Place<'_> {
    pub fn invalid(&self, why: impl ToString) -> BuildError {
        BuildError::invalid(self.root.display(), why)
    }

    pub fn unsupported(&self, what: impl Into<String>) -> BuildError {
        BuildError::Unsupported { kustomization: self.root.display().to_string(), what: what.into() }
    }

    /// A file or directory that an entry names.
    pub fn entry(&self, entry: &str) -> Result<Entry, BuildError> {
        match self.reader.resolve(&self.root.join(entry)) {
            Ok(path) if self.reader.is_directory(&path) => Ok(Entry::Directory(path)),
            Ok(path) => self.allowed(path).map(Entry::File),
            Err(_) if is_remote(entry) => Err(self.unsupported(format!("the remote resource {entry:?}"))),
            Err(error) => Err(self.invalid(format!("{entry:?}: {error}"))),
        }
    }

    /// Files must be in or below the directory of the kustomization, so that a foreign one reads no secrets.
    fn allowed(&self, path: PathBuf) -> Result<PathBuf, BuildError> {
        if path.starts_with(self.root) {
            return Ok(path);
        }
        let (file, root) = (path.display(), self.root.display());
        Err(self.invalid(format!("file {file} is not in or below {root}; move it there, or make its directory a base")))
    }

    /// The content of a file of the kustomization.
    pub fn file(&self, name: &str) -> Result<Vec<u8>, BuildError> {
        let failed = |error: std::io::Error| self.invalid(format!("{name:?}: {error}"));
        let path = self.reader.resolve(&self.root.join(name)).map_err(failed)?;
        self.reader.read(&self.allowed(path)?).map_err(failed)
    }

    pub fn has_file(&self, name: &str) -> bool {
        self.reader.resolve(&self.root.join(name)).is_ok_and(|path| !self.reader.is_directory(&path))
    }

    /// The objects of a file of manifests.
    pub fn objects(&self, path: &Path) -> Result<Vec<Value>, BuildError> {
        let failed = |why: String| BuildError::invalid(path.display(), why);
        let bytes = self.reader.read(path).map_err(|error| failed(error.to_string()))?;
        let objects: Vec<Value> = documents(&bytes).map_err(failed)?.into_iter().flat_map(items).collect();
        for object in &objects {
            let missing = |field: &str| failed(format!("an object has no {field}"));
            for field in ["apiVersion", "kind"] {
                if object[field].as_str().is_none_or(str::is_empty) {
                    return Err(missing(field));
                }
            }
            if object["metadata"]["name"].as_str().is_none_or(str::is_empty) {
                return Err(missing("metadata.name"));
            }
        }
        Ok(objects)
    }
}

/// The documents of a stream but the empty ones. kustomize reads manifests as YAML 1.2, where `yes`, `on` and `y` are
/// strings; kubectl reads other files as YAML 1.1, where they are true.
pub fn documents(stream: &[u8]) -> Result<Vec<Value>, String> {
    let text = std::str::from_utf8(stream).map_err(|error| error.to_string())?;
    let mut values = Vec::new();
    for part in yaml::split(text) {
        if part.trim_start().starts_with('{') {
            values.extend(yaml::documents(part.as_bytes()).map_err(|error| error.to_string())?);
            continue;
        }
        let value = yaml::to_json_value_for_kustomize(part).map_err(|error| error.to_string())?;
        values.extend(Some(value).filter(|value| !value.is_null()));
    }
    Ok(values)
}

/// A List is its items.
fn items(mut document: Value) -> Vec<Value> {
    let is_list = document["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    match document.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) if is_list => items,
        Some(other) => {
            document["items"] = other;
            vec![document]
        }
        None => vec![document],
    }
}
