//! Manifests from files, directories, URLs, kustomizations and the standard input: YAML or JSON, several documents,
//! Lists taken apart.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use apimachinery::yaml;
use serde_json::Value;

use super::decode::{self, Check};
use super::flags::Files;
use crate::error::Error;
use crate::{kustomize, requests};

/// kubectl reads these of a directory.
const EXTENSIONS: [&str; 3] = ["json", "yaml", "yml"];
/// Directories in directories.
const MAX_DEPTH: usize = 64;

/// A document and its source.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    pub source: String,
    pub object: Value,
    /// It is an item of a List.
    pub in_list: bool,
}

/// A manifest, or the error of one that cannot be read.
pub type Outcome = Result<Manifest, Error>;

/// Every object of the files, in their order. What follows a malformed document in its file is not read; other files are.
///
/// # Errors
/// Naming the first path that does not exist.
pub async fn read(files: &Files, check: Check) -> Result<Vec<Outcome>, Error> {
    if !files.kustomize.is_empty() && !files.filename.is_empty() {
        return Err(Error::message("only one of -f or -k can be specified"));
    }
    if !files.kustomize.is_empty() && files.recursive {
        return Err(Error::message("the -k flag can't be used with -f or -R"));
    }
    let mut sources = Vec::new();
    for name in &files.filename {
        sources.extend(Source::of(name, files.recursive)?);
    }
    let mut outcomes = Vec::new();
    if !files.kustomize.is_empty() {
        match kustomized(&files.kustomize) {
            Ok(manifests) => outcomes.extend(manifests.into_iter().map(Ok)),
            Err(error) => outcomes.push(Err(error)),
        }
    }
    for source in sources {
        match source.read().await {
            Ok((shown, bytes)) => parse(&shown, &bytes, check, &mut outcomes),
            Err(error) => outcomes.push(Err(error)),
        }
    }
    Ok(outcomes)
}

/// [`read`] for commands that need every object.
///
/// # Errors
/// The first error.
pub async fn read_all(files: &Files) -> Result<Vec<Manifest>, Error> {
    read(files, Check::Readable).await?.into_iter().collect()
}

/// The documents of a file, a directory, a URL or the standard input, of any shape.
///
/// # Errors
/// When one of them cannot be read.
pub async fn documents(name: &str) -> Result<Vec<Value>, Error> {
    let mut found = Vec::new();
    for source in Source::of(name, false)? {
        let (shown, bytes) = source.read().await?;
        let documents = yaml::documents(&bytes);
        found.extend(documents.map_err(|error| Error::message(format!("error parsing {shown}: {error}")))?);
    }
    Ok(found)
}

/// The unchanged content of a file; `-` is the standard input.
///
/// # Errors
/// When it cannot be read.
pub async fn content(name: &str) -> Result<Vec<u8>, Error> {
    let source = if name == "-" { Source::Input } else { Source::File(PathBuf::from(name)) };
    Ok(source.read().await?.1)
}

/// Where a stream of documents is.
enum Source<'a> {
    Input,
    Url(&'a str),
    File(PathBuf),
}

impl<'a> Source<'a> {
    /// The streams of one argument: a directory has several.
    fn of(name: &'a str, recursive: bool) -> Result<Vec<Self>, Error> {
        match name {
            "-" => Ok(vec![Self::Input]),
            url if url.starts_with("http://") || url.starts_with("https://") => Ok(vec![Self::Url(url)]),
            path => Ok(paths(Path::new(path), recursive)?.into_iter().map(Self::File).collect()),
        }
    }

    /// Its name in messages, and its content.
    async fn read(&self) -> Result<(String, Vec<u8>), Error> {
        match self {
            Self::Input => {
                let mut bytes = Vec::new();
                let read = std::io::stdin().lock().read_to_end(&mut bytes);
                read.map_err(|error| Error::message(format!("the standard input cannot be read: {error}")))?;
                Ok(("STDIN".to_owned(), bytes))
            }
            Self::Url(url) => Ok(((*url).to_owned(), download(url).await?)),
            Self::File(path) => {
                let shown = path.to_string_lossy().into_owned();
                let bytes = std::fs::read(path)
                    .map_err(|error| Error::message(format!("the path {shown:?} cannot be accessed: {error}")))?;
                Ok((shown, bytes))
            }
        }
    }
}

/// The objects of a kustomization.
fn kustomized(directory: &str) -> Result<Vec<Manifest>, Error> {
    let objects = kustomize::build(&Disk, Path::new(directory)).map_err(|error| match error {
        kustomize::BuildError::Unsupported { .. } => {
            Error::message(format!("{error}: run `kubectl kustomize {directory} | karmadactl COMMAND -f -` instead"))
        }
        kustomize::BuildError::Invalid { .. } => Error::message(error.to_string()),
    })?;
    Ok(objects.into_iter().map(|object| Manifest { source: directory.to_owned(), object, in_list: false }).collect())
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

/// The objects of a text.
pub fn of_bytes(source: &str, bytes: &[u8]) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    parse(source, bytes, Check::Readable, &mut outcomes);
    outcomes
}

/// The objects of a stream.
fn parse(source: &str, bytes: &[u8], check: Check, outcomes: &mut Vec<Outcome>) {
    let (documents, error) = yaml::documents_before_error(bytes);
    for document in documents {
        match decode::manifests(source, document, check) {
            Ok(manifests) => outcomes.extend(manifests),
            Err(error) => {
                outcomes.push(Err(error));
                return;
            }
        }
    }
    outcomes.extend(error.map(|error| Err(Error::message(format!("error parsing {source}: {error}")))));
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
        let mut found = Vec::new();
        parse("f", text.as_bytes(), Check::Readable, &mut found);
        let shown: Vec<String> = found
            .iter()
            .map(|outcome| match outcome {
                Ok(it) => format!("{}/{}", it.object["kind"].as_str().unwrap_or(""), it.object["metadata"]["name"]),
                Err(error) => error.to_string(),
            })
            .collect();
        assert_eq!(shown.join(" "), expected, "{text}");
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
        check(
            untyped,
            "unable to get type info from the object \"*unstructured.Unstructured\": Object 'Kind' is missing in 'object has no kind field '",
        );
        check("a: 1", r#"unable to decode "f": Object 'Kind' is missing in '{"a":1}'"#);
        check("kind: A", "A/null");
    }

    #[test]
    fn an_error_ends_a_stream_and_hides_nothing_before_it() {
        let object = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}";
        check(
            &format!("{object}\n---\na: 1\n---\n{object}"),
            r#"ConfigMap/"a" unable to decode "f": Object 'Kind' is missing in '{"a":1}' ConfigMap/"a""#,
        );
        let mut found = Vec::new();
        let broken = format!("{object}\n---\na: [\n---\n{object}");
        parse("f", broken.as_bytes(), Check::Readable, &mut found);
        assert_eq!(found.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false]);
        let mut found = Vec::new();
        parse("f", format!("{object}\n---\na: 1\n---\n{object}").as_bytes(), Check::Typed, &mut found);
        assert_eq!(found.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false]);
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
