//! The fields of a kustomization file.

use std::collections::BTreeMap;

use apimachinery::yaml;
use serde::Deserialize;
use serde_json::Value;

use super::BuildError;
use super::labels::Parts;
use super::read::Place;

const FILES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// Fields of kustomize that are not built here.
pub const UNSUPPORTED: [&str; 14] = [
    "buildMetadata",
    "configurations",
    "crds",
    "generators",
    "helmChartInflationGenerator",
    "helmCharts",
    "helmGlobals",
    "imageTags",
    "inventory",
    "openapi",
    "replacements",
    "transformers",
    "validators",
    "vars",
];

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Kustomization {
    #[serde(rename = "apiVersion")]
    _api_version: Value,
    #[serde(rename = "kind")]
    _kind: Value,
    #[serde(rename = "metadata")]
    _metadata: Value,
    pub resources: Vec<String>,
    pub bases: Vec<String>,
    pub components: Vec<String>,
    pub namespace: String,
    pub name_prefix: String,
    pub name_suffix: String,
    pub labels: Vec<Label>,
    pub common_labels: BTreeMap<String, String>,
    pub common_annotations: BTreeMap<String, String>,
    pub images: Vec<Image>,
    pub replicas: Vec<Replicas>,
    pub patches: Vec<Patch>,
    pub patches_strategic_merge: Vec<String>,
    #[serde(rename = "patchesJson6902")]
    pub patches_json6902: Vec<Patch>,
    pub config_map_generator: Vec<Generator>,
    pub secret_generator: Vec<Generator>,
    pub generator_options: Option<GeneratorOptions>,
    pub sort_options: SortOptions,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Label {
    pub pairs: BTreeMap<String, String>,
    include_selectors: bool,
    include_templates: bool,
    fields: Option<Value>,
}

impl Label {
    pub fn parts(&self) -> Parts {
        match (self.include_selectors, self.include_templates) {
            (true, _) => Parts::All,
            (false, true) => Parts::Templates,
            (false, false) => Parts::Metadata,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Image {
    pub name: String,
    pub new_name: String,
    pub new_tag: String,
    /// kubectl 1.32 appends it twice to the images of containers.
    pub tag_suffix: Option<Value>,
    pub digest: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Replicas {
    pub name: String,
    pub count: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Patch {
    pub path: String,
    pub patch: String,
    pub target: Option<Target>,
    pub options: BTreeMap<String, bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Target {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub name: String,
    pub namespace: String,
    pub label_selector: String,
    pub annotation_selector: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Generator {
    pub name: String,
    pub namespace: String,
    pub behavior: String,
    /// For Secrets only.
    #[serde(rename = "type")]
    pub secret_type: String,
    pub literals: Vec<String>,
    pub files: Vec<String>,
    pub envs: Vec<String>,
    pub env: String,
    pub options: Option<GeneratorOptions>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct GeneratorOptions {
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub disable_name_suffix_hash: bool,
    pub immutable: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct SortOptions {
    order: String,
    legacy_sort_options: Option<Value>,
}

impl SortOptions {
    pub fn is_fifo(&self) -> bool {
        self.order == "fifo"
    }
}

/// Reads the kustomization of a directory, which must be of this kind.
pub fn load(place: &Place<'_>, kind: &str) -> Result<Kustomization, BuildError> {
    let present: Vec<&str> = FILES.into_iter().filter(|name| place.has_file(name)).collect();
    let name = match present.as_slice() {
        [name] => *name,
        [] => {
            let why =
                "unable to find one of 'kustomization.yaml', 'kustomization.yml' or 'Kustomization' in the directory";
            return Err(place.invalid(why));
        }
        several => return Err(place.invalid(format!("found multiple kustomization files: {}", several.join(", ")))),
    };
    let document = yaml::to_json_value(&place.file(name)?).map_err(|error| place.invalid(error))?;
    let Value::Object(fields) = &document else {
        return Err(place.invalid(format!("{name} is empty or not a map")));
    };
    let own = fields.get("kind").and_then(Value::as_str).unwrap_or("Kustomization");
    if own != kind {
        return Err(place.invalid(format!("{name} is of kind {own:?}, a {kind} is required here")));
    }
    if let Some(field) = fields.keys().find(|field| UNSUPPORTED.contains(&field.as_str())) {
        return Err(place.unsupported(format!("the field {field:?}")));
    }
    let found: Kustomization =
        serde_json::from_value(document).map_err(|error| place.invalid(format!("{name}: {error}")))?;
    check(place, &found)?;
    Ok(found)
}

/// Fields in fields that are not supported, and values that are not allowed.
fn check(place: &Place<'_>, found: &Kustomization) -> Result<(), BuildError> {
    if found.labels.iter().any(|label| label.fields.is_some()) {
        return Err(place.unsupported("the field \"labels.fields\""));
    }
    if found.images.iter().any(|image| image.tag_suffix.is_some()) {
        return Err(place.unsupported("the field \"images.tagSuffix\""));
    }
    if found.sort_options.legacy_sort_options.is_some() {
        return Err(place.unsupported("the field \"sortOptions.legacySortOptions\""));
    }
    if !["", "legacy", "fifo"].contains(&found.sort_options.order.as_str()) {
        let order = &found.sort_options.order;
        return Err(
            place.invalid(format!("sortOptions.order: unsupported value {order:?}: supported values: legacy, fifo"))
        );
    }
    let options = found.patches.iter().flat_map(|patch| patch.options.keys());
    match options.into_iter().find(|name| !["allowNameChange", "allowKindChange"].contains(&name.as_str())) {
        Some(name) => Err(place.invalid(format!("patches.options: unknown option {name:?}"))),
        None => Ok(()),
    }
}
