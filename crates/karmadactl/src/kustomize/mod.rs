//! Builds kustomizations: from a reader of files to the list of objects, as `kubectl kustomize` prints them.
//!
//! This module does not access the disk, the network or the environment except through [`Reader`]. Unsupported features
//! are refused by name: remote resources, and the fields in [`config::UNSUPPORTED`].

mod config;
mod fields;
mod generate;
mod images;
mod labels;
mod names;
mod order;
mod patches;
mod read;
mod references;
mod resource;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use serde_json::Value;

use config::Kustomization;
pub use generate::content_hash;
pub use read::Reader;
use resource::Resource;

/// Why a kustomization cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// kubectl may build it: the field or the remote resource exists, but not here.
    #[error("{kustomization}: {what} is not supported")]
    Unsupported { kustomization: String, what: String },
    #[error("{place}: {why}")]
    Invalid { place: String, why: String },
}

impl BuildError {
    fn invalid(place: impl ToString, why: impl ToString) -> Self {
        Self::Invalid { place: place.to_string(), why: why.to_string() }
    }
}

/// The objects of the kustomization in a directory, in the order in which kubectl applies them.
///
/// # Errors
/// The first field, file or object that cannot be read, is wrong, or is not supported.
pub fn build(reader: &dyn Reader, directory: &Path) -> Result<Vec<Value>, BuildError> {
    let root = read::directory(reader, directory)?;
    let mut resources = Vec::new();
    let top = accumulate(reader, &root, &mut resources, &mut Vec::new(), "Kustomization")?;
    resources.iter_mut().for_each(generate::add_hash);
    references::rename(&mut resources).map_err(|why| BuildError::invalid(root.display(), why))?;
    if !top.sort_options.is_fifo() {
        order::sort(&mut resources);
    }
    Ok(resources.into_iter().map(|resource| resource.object).collect())
}

/// Adds the resources of one kustomization. A component continues with the resources that there are; a base has its
/// own.
fn accumulate(
    reader: &dyn Reader,
    root: &Path,
    resources: &mut Vec<Resource>,
    chain: &mut Vec<PathBuf>,
    kind: &str,
) -> Result<Kustomization, BuildError> {
    if let Some(visited) = chain.iter().find(|visited| visited.starts_with(root)) {
        let why = format!("cycle detected: {} is, or contains, {}", root.display(), visited.display());
        return Err(BuildError::invalid(visited.display(), why));
    }
    chain.push(root.to_owned());
    let place = read::Place { reader, root };
    let found = config::load(&place, kind)?;
    for entry in found.resources.iter().chain(&found.bases) {
        let added = match place.entry(entry)? {
            read::Entry::Directory(base) => {
                let mut added = Vec::new();
                accumulate(reader, &base, &mut added, chain, "Kustomization")?;
                added
            }
            read::Entry::File(path) => place.objects(&path)?.into_iter().map(Resource::new).collect(),
        };
        added.into_iter().try_for_each(|one| add(resources, one).map_err(|why| place.invalid(why)))?;
    }
    generate::all(&place, &found, resources)?;
    for component in &found.components {
        match place.entry(component)? {
            read::Entry::Directory(below) => {
                accumulate(reader, &below, resources, chain, "Component")?;
            }
            read::Entry::File(path) => {
                return Err(place.invalid(format!("the component {} is not a directory", path.display())));
            }
        }
    }
    transform(&place, &found, resources)?;
    chain.pop();
    Ok(found)
}

/// Patches and references need one resource an identity.
fn add(resources: &mut Vec<Resource>, one: Resource) -> Result<(), String> {
    let id = one.id();
    if resources.iter().any(|other| other.id().is_same(&id)) {
        return Err(format!("may not add resource with an already registered id: {id}"));
    }
    resources.push(one);
    Ok(())
}

/// The transformers of one kustomization, in kustomize's order.
fn transform(place: &read::Place<'_>, found: &Kustomization, resources: &mut Vec<Resource>) -> Result<(), BuildError> {
    patches::strategic(place, &found.patches_strategic_merge, resources)?;
    patches::all(place, &found.patches, resources)?;
    names::namespace(&found.namespace, resources).map_err(|why| place.invalid(why))?;
    names::affix(&found.name_prefix, &found.name_suffix, resources);
    for label in &found.labels {
        labels::label(&label.pairs, label.parts(), resources);
    }
    labels::label(&found.common_labels, labels::Parts::All, resources);
    labels::annotate(&found.common_annotations, resources);
    patches::json(place, &found.patches_json6902, resources)?;
    for scaled in &found.replicas {
        names::scale(scaled, resources).map_err(|why| place.invalid(why))?;
    }
    for image in &found.images {
        resources.iter_mut().for_each(|resource| images::set(image, resource));
    }
    Ok(())
}
