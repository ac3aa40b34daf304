//! Manifests from files, directories, URLs, kustomizations and the standard input: YAML or JSON, several documents,
//! Lists taken apart.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use apimachinery::yaml;
use serde_json::Value;

use super::flags::Files;
use crate::error::Error;
use crate::{answers, kustomize, requests};

/// kubectl reads these of a directory.
const EXTENSIONS: [&str; 3] = ["json", "yaml", "yml"];
/// Directories in directories.
const MAX_DEPTH: usize = 64;

/// A document and its source.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    pub source: String,
    pub object: Value,
}

/// Every object of the files, in their order.
///
/// # Errors
/// The first that cannot be read, by its name.
pub async fn read(files: &Files) -> Result<Vec<Manifest>, Error> {
    let mut manifests = Vec::new();
    if !files.kustomize.is_empty() {
        if !files.filename.is_empty() {
            return Err(Error::message("only one of -f or -k can be specified"));
        }
        manifests.extend(kustomized(&files.kustomize)?);
    }
    for name in &files.filename {
        if name == "-" {
            let mut bytes = Vec::new();
            let read = std::io::stdin().lock().read_to_end(&mut bytes);
            read.map_err(|error| Error::message(format!("the standard input cannot be read: {error}")))?;
            manifests.extend(parse("STDIN", &bytes)?);
        } else if name.starts_with("http://") || name.starts_with("https://") {
            manifests.extend(parse(name, &download(name).await?)?);
        } else {
            for path in paths(Path::new(name), files.recursive)? {
                let shown = path.to_string_lossy();
                let bytes = std::fs::read(&path)
                    .map_err(|error| Error::message(format!("the path {shown:?} cannot be accessed: {error}")))?;
                manifests.extend(parse(&shown, &bytes)?);
            }
        }
    }
    Ok(manifests)
}

/// The objects of a kustomization.
fn kustomized(directory: &str) -> Result<Vec<Manifest>, Error> {
    let objects = kustomize::build(&Disk, Path::new(directory)).map_err(|error| match error {
        kustomize::BuildError::Unsupported { .. } => {
            Error::message(format!("{error}: run `kubectl kustomize {directory} | karmadactl COMMAND -f -` instead"))
        }
        kustomize::BuildError::Invalid { .. } => Error::message(error.to_string()),
    })?;
    Ok(objects.into_iter().map(|object| Manifest { source: directory.to_owned(), object }).collect())
}

/// Files where they are.
struct Disk;

impl kustomize::Reader for Disk {
    fn resolve(&self, path: &Path) -> std::io::Result<PathBuf> {
        path.canonicalize()
    }

    fn is_directory(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn read(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        std::fs::read(path)
    }
}

/// The files of a path, sorted in each directory.
fn paths(path: &Path, recursive: bool) -> Result<Vec<PathBuf>, Error> {
    let shown = path.to_string_lossy();
    let facts = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::message(format!("the path {shown:?} does not exist")),
        _ => Error::message(format!("the path {shown:?} cannot be accessed: {error}")),
    })?;
    if !facts.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    walk(path, recursive, 0, &mut found)?;
    if found.is_empty() {
        return Err(Error::message(format!(
            "error reading [{shown}]: recognized file extensions are [.json .yaml .yml]"
        )));
    }
    Ok(found)
}

fn walk(directory: &Path, recursive: bool, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), Error> {
    let failed = |error: std::io::Error| Error::message(format!("the path {directory:?} cannot be accessed: {error}"));
    let mut entries: Vec<PathBuf> = std::fs::read_dir(directory)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect())
        .map_err(failed)?;
    entries.sort();
    for path in entries {
        if path.is_dir() {
            if recursive && depth < MAX_DEPTH {
                walk(&path, recursive, depth + 1, found)?;
            }
        } else if path.extension().is_some_and(|it| EXTENSIONS.iter().any(|known| it == *known)) {
            found.push(path);
        }
    }
    Ok(())
}

/// The objects of a stream.
fn parse(source: &str, bytes: &[u8]) -> Result<Vec<Manifest>, Error> {
    let documents =
        yaml::documents(bytes).map_err(|error| Error::message(format!("error parsing {source}: {error}")))?;
    let mut manifests = Vec::new();
    for document in documents {
        add(source, document, &mut manifests)?;
    }
    Ok(manifests)
}

/// One document; a List is its items.
fn add(source: &str, mut document: Value, manifests: &mut Vec<Manifest>) -> Result<(), Error> {
    let missing = |what: &str, document: &Value| {
        Error::message(format!("error validating {source:?}: Object '{what}' is missing in '{document}'"))
    };
    for (field, name) in [("kind", "Kind"), ("apiVersion", "apiVersion")] {
        if document[field].as_str().is_none_or(str::is_empty) {
            return Err(missing(name, &document));
        }
    }
    // A typed list, as servers return it, names the type of its items only once.
    let of_items = document["kind"].as_str().and_then(|kind| kind.strip_suffix("List")).map(str::to_owned);
    if let Some(kind) = of_items
        && let Some(items) = answers::take_items(&mut document)
    {
        return items.into_iter().try_for_each(|mut item| {
            if let Some(fields) = item.as_object_mut().filter(|_| !kind.is_empty()) {
                fields.entry("kind").or_insert_with(|| kind.clone().into());
                fields.entry("apiVersion").or_insert_with(|| document["apiVersion"].clone());
            }
            if item["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) && item["items"].is_array() {
                return Err(Error::message(format!("{source}: a List holds another List")));
            }
            add(source, item, manifests)
        });
    }
    manifests.push(Manifest { source: source.to_owned(), object: document });
    Ok(())
}

/// A GET of a URL, with the machine's certificate authorities.
async fn download(url: &str) -> Result<Vec<u8>, Error> {
    let failed = |why: String| Error::message(format!("unable to read URL {url:?}, {why}"));
    let split = url.find("://").and_then(|scheme| url[scheme + 3..].find('/').map(|at| scheme + 3 + at));
    let (server, path) = url.split_at(split.unwrap_or(url.len()));
    let endpoint = client::Endpoint { server: server.to_owned(), ..Default::default() };
    let client = client::Client::from_endpoint(&endpoint).map_err(|error| failed(error.to_string()))?;
    let request = http::Request::get(if path.is_empty() { "/" } else { path })
        .header(http::header::ACCEPT, "*/*")
        .body(transport::empty())
        .map_err(|error| failed(error.to_string()))?;
    let response = client.send(request).await.map_err(|error| failed(error.to_string()))?;
    let (parts, body) = response.into_parts();
    if !parts.status.is_success() {
        return Err(failed(format!("server reported {}", parts.status)));
    }
    requests::whole(body).await.map(|bytes| bytes.to_vec()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let shown = match parse("f", text.as_bytes()) {
            Ok(found) => found
                .iter()
                .map(|it| format!("{}/{}", it.object["kind"].as_str().unwrap_or(""), it.object["metadata"]["name"]))
                .collect::<Vec<_>>()
                .join(" "),
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn documents_and_lists_are_objects() {
        let object = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#;
        check(object, "ConfigMap/\"a\"");
        check(&format!("{object}{object}"), "ConfigMap/\"a\" ConfigMap/\"a\"");
        check("", "");
        check("# nothing\n---\n---\n", "");
        let items = format!(r#"{{"apiVersion":"v1","kind":"List","items":[{object}]}}"#);
        check(&items, "ConfigMap/\"a\"");
        check(&format!("---\n{items}\n---\napiVersion: v1\nkind: Secret\n"), "ConfigMap/\"a\" Secret/null");
        let typed = r#"{"apiVersion":"v1","kind":"SecretList","items":[{"metadata":{"name":"a"}}]}"#;
        check(typed, "Secret/\"a\"");
        let untyped = r#"{"apiVersion":"v1","kind":"List","items":[{"a":1}]}"#;
        check(untyped, r#"error validating "f": Object 'Kind' is missing in '{"a":1}'"#);
        check("a: 1", r#"error validating "f": Object 'Kind' is missing in '{"a":1}'"#);
        check("kind: A", r#"error validating "f": Object 'apiVersion' is missing in '{"kind":"A"}'"#);
    }

    #[test]
    fn directories_are_walked() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path();
        std::fs::create_dir(root.join("sub")).expect("created");
        for name in ["b.yaml", "a.json", "c.txt", "sub/d.yml"] {
            std::fs::write(root.join(name), "").expect("written");
        }
        let names = |recursive| {
            let found = paths(root, recursive).expect("readable");
            found.iter().map(|it| it.strip_prefix(root).expect("below").display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(names(false), ["a.json", "b.yaml"]);
        assert_eq!(names(true), ["a.json", "b.yaml", "sub/d.yml"]);
        let absent = paths(&root.join("none"), false).expect_err("absent").to_string();
        assert!(absent.starts_with("the path \"") && absent.ends_with("none\" does not exist"), "{absent}");
    }
}
