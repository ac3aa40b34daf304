//! The inputs of `interpret`, from files, directories, URLs and the standard input.

use karmada_api::config::v1alpha1::ResourceInterpreterCustomization;
use karmada_api::work::v1alpha2::AggregatedStatusItem;
use serde::Deserialize as _;
use serde_json::Value;

use super::InterpretArgs;
use crate::error::Error;
use crate::objects::files;
use crate::objects::flags::Files;

/// A document of `-f`.
#[derive(Debug)]
pub struct Source {
    /// The name of the object, or of its file.
    pub name: String,
    /// The customization, or why the document is not one.
    pub customization: Result<ResourceInterpreterCustomization, String>,
}

/// The documents of all files.
#[derive(Debug, Default)]
pub struct Inputs {
    pub sources: Vec<Source>,
    pub desired: Option<Value>,
    pub observed: Option<Value>,
    pub items: Vec<AggregatedStatusItem>,
}

impl Inputs {
    /// Reads all files, also those that the operation does not use.
    ///
    /// # Errors
    /// The first file that cannot be read, or that has several objects where one is expected.
    pub async fn read(args: &InterpretArgs) -> Result<Self, Error> {
        if args.filename.is_empty() {
            return Err(Error::message("must specify -f"));
        }
        let files = Files { filename: args.filename.clone(), recursive: args.recursive, kustomize: String::new() };
        let sources = files::read_all(&files).await?.into_iter().map(source).collect::<Result<_, _>>()?;
        Ok(Self {
            sources,
            desired: one(args.desired_file.as_deref(), "desired object").await?,
            observed: one(args.observed_file.as_deref(), "observed object").await?,
            items: match args.status_file.as_deref() {
                Some(name) => items(name).await?,
                None => Vec::new(),
            },
        })
    }

    /// The customizations.
    ///
    /// # Errors
    /// For the first document of another kind.
    pub fn customizations(&self) -> Result<Vec<&ResourceInterpreterCustomization>, Error> {
        let failed = |why: &String| Error::message(format!("fail to get customization object: {why}"));
        self.sources.iter().map(|it| it.customization.as_ref().map_err(failed)).collect()
    }
}

fn source(manifest: files::Manifest) -> Result<Source, Error> {
    let files::Manifest { source, object, .. } = manifest;
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let name = object["metadata"]["name"].as_str().filter(|name| !name.is_empty()).unwrap_or(&source).to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let customization = if (group, kind) == ("config.karmada.io", "ResourceInterpreterCustomization") {
        let decoded = ResourceInterpreterCustomization::deserialize(&object);
        Ok(decoded.map_err(|error| Error::message(format!("unable to decode {source:?}: {error}")))?)
    } else {
        Err(format!("not a ResourceInterpreterCustomization, got {group}/{version}, Kind={kind}"))
    };
    Ok(Source { name, customization })
}

async fn one(name: Option<&str>, what: &str) -> Result<Option<Value>, Error> {
    let Some(name) = name.filter(|name| !name.is_empty()) else { return Ok(None) };
    let files = Files { filename: vec![name.to_owned()], ..Files::default() };
    match <[files::Manifest; 1]>::try_from(files::read_all(&files).await?) {
        Ok([manifest]) => Ok(Some(manifest.object)),
        Err(several) => {
            let text = format!("fail to get {what}: get {} objects, expect one", several.len());
            Err(Error::message(text))
        }
    }
}

async fn items(name: &str) -> Result<Vec<AggregatedStatusItem>, Error> {
    let failed = |error: serde_json::Error| Error::message(format!("fail to get status items: {name}: {error}"));
    let documents = files::documents(name).await?;
    documents.iter().map(AggregatedStatusItem::deserialize).collect::<Result<_, _>>().map_err(failed)
}
