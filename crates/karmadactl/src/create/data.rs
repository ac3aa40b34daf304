//! `create configmap` and `create secret TYPE`: contents from literals, files and environment files.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use kubernetes_api::is_config_key;
use serde_json::{Map, Value, json};

use super::kinds::{Common, Draft};
use crate::error::{self, Error};
use crate::{kustomize, resources};

#[derive(Args)]
pub struct Sources {
    /// Append the hash of the content to the name.
    #[arg(long)]
    append_hash: bool,
    /// File of KEY=VALUE lines.
    #[arg(long, value_delimiter = ',')]
    from_env_file: Vec<String>,
    /// File, KEY=FILE, or a directory whose files become keys.
    #[arg(long, value_delimiter = ',')]
    from_file: Vec<String>,
    /// KEY=VALUE.
    #[arg(long)]
    from_literal: Vec<String>,
}

#[derive(Args)]
pub struct ConfigMapArgs {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    sources: Sources,
}

#[derive(Args)]
pub struct GenericArgs {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    sources: Sources,
    /// Type of the secret.
    #[arg(long = "type", default_value = "")]
    type_: String,
}

#[derive(Args)]
pub struct DockerRegistryArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// Append the hash of the content to the name.
    #[arg(long)]
    append_hash: bool,
    /// Email for the registry.
    #[arg(long, default_value = "")]
    docker_email: String,
    /// Password for the registry.
    #[arg(long, default_value = "")]
    docker_password: String,
    /// Location of the registry.
    #[arg(long, default_value = "https://index.docker.io/v1/")]
    docker_server: String,
    /// Username for the registry.
    #[arg(long, default_value = "")]
    docker_username: String,
    /// File, or KEY=FILE, with the credentials.
    #[arg(long, value_delimiter = ',')]
    from_file: Vec<String>,
}

#[derive(Args)]
pub struct TlsArgs {
    #[command(flatten)]
    pub(super) common: Common,
    /// Append the hash of the content to the name.
    #[arg(long)]
    append_hash: bool,
    /// Path to the certificate in PEM.
    #[arg(long, default_value = "")]
    cert: String,
    /// Path to the key of the certificate in PEM.
    #[arg(long, default_value = "")]
    key: String,
}

/// Keys and contents, as they are found.
type Contents = Vec<(String, Vec<u8>)>;

impl Sources {
    fn read(&self) -> Result<Contents, Error> {
        let others = [&self.from_file, &self.from_literal];
        if !self.from_env_file.is_empty() && others.iter().any(|sources| !sources.is_empty()) {
            return Err(Error::message("from-env-file cannot be combined with from-file or from-literal"));
        }
        let mut contents = files(&self.from_file)?;
        for literal in &self.from_literal {
            let (key, value) = literal
                .split_once('=')
                .filter(|(key, _)| !key.is_empty())
                .ok_or_else(|| Error::message(format!("invalid literal source {literal}, expected key=value")))?;
            contents.push((key.to_owned(), value.as_bytes().to_vec()));
        }
        for file in &self.from_env_file {
            let bytes = std::fs::read(file).map_err(|error| match error.kind() {
                ErrorKind::IsADirectory => Error::message("env config file cannot be a directory"),
                _ => unreadable(file, &error),
            })?;
            contents.extend(environment(file, &bytes, |name| std::env::var(name).ok())?);
        }
        Ok(contents)
    }
}

fn unreadable(path: &str, error: &std::io::Error) -> Error {
    Error::message(format!("error reading {path}: {}", error::of_file(error)))
}

/// `FILE`, `KEY=FILE` or `DIRECTORY`
fn files(sources: &[String]) -> Result<Contents, Error> {
    files_named(sources, None)
}

/// As [`files`]; `default` is the key of sources without one.
fn files_named(sources: &[String], default: Option<&str>) -> Result<Contents, Error> {
    let mut contents = Vec::new();
    for source in sources {
        let (key, path) = match source.split_once('=') {
            None => (default, source.as_str()),
            Some((_, path)) if path.contains('=') => {
                return Err(Error::message("key names or file paths cannot contain '='"));
            }
            Some(("", path)) => return Err(Error::message(format!("key name for file path {path} missing"))),
            Some((key, "")) => return Err(Error::message(format!("file path for key name {key} missing"))),
            Some((key, path)) => (Some(key), path),
        };
        let failed = |error: std::io::Error| unreadable(path, &error);
        if !std::fs::metadata(path).map_err(failed)?.is_dir() {
            let name = Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
            let key = key.map(str::to_owned).or(name).unwrap_or_default();
            contents.push((key, std::fs::read(path).map_err(failed)?));
            continue;
        }
        if key.is_some() {
            return Err(Error::message("cannot give a key name for a directory path"));
        }
        let entries = std::fs::read_dir(path).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(failed)?;
        let mut found = Vec::new();
        for entry in entries {
            if entry.file_type().is_ok_and(|type_| type_.is_file()) {
                let key = entry.file_name().to_string_lossy().into_owned();
                found.push((key, std::fs::read(entry.path()).map_err(failed)?));
            }
        }
        found.sort();
        contents.extend(found);
    }
    Ok(contents)
}

/// `KEY=VALUE` lines; the value of a key alone is that of the process' own environment.
fn environment(file: &str, bytes: &[u8], own: impl Fn(&str) -> Option<String>) -> Result<Contents, Error> {
    let mut contents = Vec::new();
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    for (at, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Ok(line) = std::str::from_utf8(line) else {
            return Err(Error::message(format!("env file {file} contains invalid utf8 bytes at line {}", at + 1)));
        };
        let line = line.trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (key, value) = line.split_once('=').map_or((line, None), |(key, value)| (key, Some(value)));
        if let Some(complaint) = variable_name(key) {
            return Err(Error::message(format!("{key:?} is not a valid key name: {complaint}")));
        }
        let value = value.map_or_else(|| own(key).unwrap_or_default(), str::to_owned);
        contents.push((key.to_owned(), value.into_bytes()));
    }
    Ok(contents)
}

fn variable_name(text: &str) -> Option<&'static str> {
    let is_valid = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    match text {
        _ if text.is_empty() || !is_valid || text.starts_with(|first: char| first.is_ascii_digit()) => Some(
            "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and must \
             not start with a digit (e.g. 'my.env-name',  or 'MY_ENV.NAME',  or 'MyEnvName1', regex used for validation is \
             '[-._a-zA-Z][-._a-zA-Z0-9]*')",
        ),
        "." => Some("must not be '.'"),
        ".." => Some("must not be '..'"),
        _ if text.starts_with("..") => Some("must not start with '..'"),
        _ => None,
    }
}

fn check_key(key: &str, refusal: &str) -> Result<(), Error> {
    let complaints = is_config_key(key);
    if complaints.is_empty() {
        return Ok(());
    }
    Err(Error::message(format!("{key:?} {refusal} {}", complaints.join(","))))
}

impl ConfigMapArgs {
    pub(super) fn draft(&self, name: &str) -> Result<Draft, Error> {
        let (mut data, mut binary) = (Map::new(), Map::new());
        for (key, content) in self.sources.read()? {
            check_key(&key, "is not a valid key name for a ConfigMap:")?;
            for (field, known) in [("Data", &data), ("BinaryData", &binary)] {
                if known.contains_key(&key) {
                    return Err(Error::message(format!(
                        "cannot add key {key:?}, another key by that name already exists in {field} for ConfigMap {name:?}"
                    )));
                }
            }
            match String::from_utf8(content) {
                Ok(text) => drop(data.insert(key, text.into())),
                Err(error) => drop(binary.insert(key, STANDARD.encode(error.as_bytes()).into())),
            }
        }
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let mut hashed = json!({"data": data, "kind": "ConfigMap", "name": name});
        if !binary.is_empty() {
            hashed["binaryData"] = binary.clone().into();
        }
        for (field, members) in [("data", data), ("binaryData", binary)] {
            if !members.is_empty() {
                object[field] = members.into();
            }
        }
        append_hash(self.sources.append_hash, &mut object, &hashed);
        Ok(Draft::new(resources::CONFIG_MAP.clone(), "failed to create configmap: ", object))
    }
}

fn append_hash(appends: bool, object: &mut Value, hashed: &Value) {
    if appends {
        let name = format!("{}-{}", hashed["name"].as_str().unwrap_or_default(), kustomize::content_hash(hashed));
        object["metadata"]["name"] = name.into();
    }
}

fn secret(name: &str, type_: &str, contents: Contents, appends_hash: bool) -> Result<Draft, Error> {
    let mut data = BTreeMap::new();
    for (key, content) in contents {
        check_key(&key, "is not valid key name for a Secret")?;
        if data.insert(key.clone(), STANDARD.encode(content)).is_some() {
            return Err(Error::message(format!("cannot add key {key}, another key by that name already exists")));
        }
    }
    let mut object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
    let hashed = json!({"data": data, "kind": "Secret", "name": name, "type": type_});
    if !data.is_empty() {
        object["data"] = json!(data);
    }
    if !type_.is_empty() {
        object["type"] = type_.into();
    }
    append_hash(appends_hash, &mut object, &hashed);
    Ok(Draft::new(resources::SECRET.clone(), "failed to create secret ", object))
}

impl GenericArgs {
    pub(super) fn draft(&self, name: &str) -> Result<Draft, Error> {
        secret(name, &self.type_, self.sources.read()?, self.sources.append_hash)
    }
}

impl DockerRegistryArgs {
    pub(super) fn draft(&self, name: &str) -> Result<Draft, Error> {
        let fields = [&self.docker_username, &self.docker_password, &self.docker_server];
        if self.from_file.is_empty() && fields.iter().any(|field| field.is_empty()) {
            return Err(Error::message(
                "either --from-file or the combination of --docker-username, --docker-password and --docker-server is \
                 required",
            ));
        }
        let contents = if self.from_file.is_empty() {
            vec![(".dockerconfigjson".to_owned(), self.credentials().into_bytes())]
        } else {
            files_named(&self.from_file, Some(".dockerconfigjson"))?
        };
        secret(name, "kubernetes.io/dockerconfigjson", contents, self.append_hash)
    }

    /// With Docker's order of fields.
    fn credentials(&self) -> String {
        let quoted = |text: &str| Value::from(text).to_string();
        let auth = STANDARD.encode(format!("{}:{}", self.docker_username, self.docker_password));
        let email = match self.docker_email.as_str() {
            "" => String::new(),
            email => format!("\"email\":{},", quoted(email)),
        };
        format!(
            "{{\"auths\":{{{}:{{\"username\":{},\"password\":{},{email}\"auth\":{}}}}}}}",
            quoted(&self.docker_server),
            quoted(&self.docker_username),
            quoted(&self.docker_password),
            quoted(&auth)
        )
    }
}

impl TlsArgs {
    pub(super) fn draft(&self, name: &str) -> Result<Draft, Error> {
        if self.cert.is_empty() || self.key.is_empty() {
            return Err(Error::message("key and cert must be specified"));
        }
        let read = |path: &str| {
            std::fs::read(path).map_err(|error| {
                Error::message(format!("Cannot read file {path}, open {path}: {}", error::of_file(&error)))
            })
        };
        let (certificate, key) = (read(&self.cert)?, read(&self.key)?);
        client::check_key_pair(&certificate, &key).map_err(|why| Error::message(format!("tls: {why}")))?;
        let contents = vec![("tls.crt".to_owned(), certificate), ("tls.key".to_owned(), key)];
        secret(name, "kubernetes.io/tls", contents, self.append_hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_files_are_read() {
        let own = |name: &str| (name == "HOME").then(|| "/root".to_owned());
        let read = |text: &str| {
            let read = environment("env", text.as_bytes(), own).map_err(|error| error.to_string())?;
            let pair = |(key, value): (String, Vec<u8>)| format!("{key}={}", String::from_utf8_lossy(&value));
            Ok::<_, String>(read.into_iter().map(pair).collect::<Vec<_>>())
        };
        let text = "\u{feff}A=1\r\n# c\n\n  B= x=y \nHOME\nNONE\nE=";
        assert_eq!(read(text), Ok(["A=1", "B= x=y ", "HOME=/root", "NONE=", "E="].map(str::to_owned).to_vec()));
        assert!(read("1A=2").is_err_and(|error| error.starts_with("\"1A\" is not a valid key name: a valid")));
        assert!(read("..A=2").is_err_and(|error| error.ends_with("must not start with '..'")));
        let broken = environment("env", b"A=1\n\xff", own).expect_err("not UTF-8").to_string();
        assert_eq!(broken, "env file env contains invalid utf8 bytes at line 2");
    }
}
