//! The input of each decoder, and its invariants.
//!
//! A target is a function over bytes that panics on a violation. `examples/fuzz.rs` runs one of them with libFuzzer;
//! `cargo xtask fuzz` builds and runs it. `docs/testing.md` describes how to reproduce findings.

mod client;
mod configurations;
mod definitions;
mod documents;
mod expressions;
mod external;
mod patches;
mod server;
mod texts;

pub type Target = fn(&[u8]);

/// Every target by its name, which is also the name of its directory in `corpus`.
pub const TARGETS: &[(&str, Target)] = &[
    ("admission_configuration", configurations::admission),
    ("admission_review", external::admission_review),
    ("api_service", external::api_service),
    ("apply", patches::apply),
    ("audit", configurations::audit),
    ("authentication_configuration", configurations::authentication),
    ("authorization_configuration", configurations::authorization),
    ("cel", expressions::cel),
    ("client", client::client),
    ("conversion", definitions::conversion),
    ("crd", definitions::crd),
    ("encryption", configurations::encryption),
    ("fields", documents::fields),
    ("json", documents::json),
    ("json_patch", patches::json_patch),
    ("merge_patch", patches::merge_patch),
    ("oidc", external::oidc),
    ("packing", documents::packing),
    ("protobuf", documents::protobuf),
    ("selectors", texts::selectors),
    ("server", server::server),
    ("stored", documents::stored),
    ("strategic", patches::strategic),
    ("token_review", external::token_review),
    ("tracing", configurations::tracing),
    ("values", texts::values),
    ("yaml", documents::yaml),
];

pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
}

/// The JSON documents at the start of the input.
fn json_documents(input: &[u8]) -> Vec<serde_json::Value> {
    serde_json::Deserializer::from_slice(input).into_iter().map_while(Result::ok).take(8).collect()
}

/// The type of a document; a Deployment's if its kind is not built in.
fn type_of(document: &serde_json::Value) -> apimachinery::schema::TypeOf {
    let text = |key: &str| document.get(key).and_then(serde_json::Value::as_str).unwrap_or_default();
    let gvk = apimachinery::GroupVersionKind::from_api_version(text("apiVersion"), text("kind"));
    let deployment = apimachinery::GroupVersionKind::new("apps", "v1", "Deployment");
    gvk.ok()
        .and_then(|gvk| kubernetes_api::schema_for(&gvk))
        .or_else(|| kubernetes_api::schema_for(&deployment))
        .expect("Deployments are built in")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// Past findings and one input of each kind, without a fuzzer.
    #[test]
    fn every_target_accepts_its_seeds() {
        for (name, target) in super::TARGETS {
            let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
            let seeds: Vec<_> = std::fs::read_dir(&directory).expect(name).flatten().map(|seed| seed.path()).collect();
            assert!(!seeds.is_empty(), "{name} has no seeds");
            for seed in seeds {
                target(&std::fs::read(&seed).expect("the seed can be read"));
            }
        }
    }
}
