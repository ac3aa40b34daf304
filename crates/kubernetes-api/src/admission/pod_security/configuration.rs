//! The configuration of the plugin in the file of `--admission-control-config-file`: defaults for namespaces without
//! labels, and exemptions.

use apimachinery::configuration::{ConfigurationError, FileKind};
use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::names;
use serde::Deserialize;
use serde_json::Value;

use super::{Level, Policies, Policy, UNKNOWN_LEVEL, UNKNOWN_VERSION, Version};

const KIND: FileKind = FileKind {
    api_versions: &[
        "pod-security.admission.config.k8s.io/v1",
        "pod-security.admission.config.k8s.io/v1beta1",
        "pod-security.admission.config.k8s.io/v1alpha1",
    ],
    kind: "PodSecurityConfiguration",
};

/// Requests that are not evaluated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Exemptions {
    /// Of these users.
    pub usernames: Vec<String>,
    /// In these namespaces.
    pub namespaces: Vec<String>,
    /// About pods of these runtime classes.
    pub runtime_classes: Vec<String>,
}

/// The configuration of the plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// The policies of namespaces without labels.
    pub defaults: Policies,
    /// Requests that are not evaluated.
    pub exemptions: Exemptions,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(default)]
    defaults: Defaults,
    #[serde(default)]
    exemptions: Exemptions,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
struct Defaults {
    enforce: String,
    enforce_version: String,
    audit: String,
    audit_version: String,
    warn: String,
    warn_version: String,
}

impl Defaults {
    fn read(&self, errors: &mut ErrorList) -> Policies {
        let at = Path::new("defaults");
        let mut of = |mode: &str, level: &str, version: &str| {
            let mut policy = Policy::PRIVILEGED;
            if !level.is_empty() {
                policy.level = Level::parse(level).unwrap_or_else(|| {
                    errors.push(Error::invalid(&at.child(mode), level, UNKNOWN_LEVEL));
                    Level::Restricted
                });
            }
            if !version.is_empty() {
                policy.version = Version::parse(version).unwrap_or_else(|| {
                    errors.push(Error::invalid(&at.child(&format!("{mode}-version")), version, UNKNOWN_VERSION));
                    Version::Latest
                });
            }
            policy
        };
        let enforce = of("enforce", &self.enforce, &self.enforce_version);
        let warn = of("warn", &self.warn, &self.warn_version);
        let audit = of("audit", &self.audit, &self.audit_version);
        Policies { enforce, audit, warn }
    }
}

impl Exemptions {
    fn check(&self, errors: &mut ErrorList) {
        let at = Path::new("exemptions");
        check(&at.child("namespaces"), &self.namespaces, errors, |at, name| {
            let wrong = names::is_dns1123_label(name);
            (!wrong.is_empty()).then(|| Error::invalid(at, name, wrong.join(", ")))
        });
        check(&at.child("runtimeClasses"), &self.runtime_classes, errors, |at, name| {
            let wrong = names::is_dns1123_subdomain(name);
            (!wrong.is_empty()).then(|| Error::invalid(at, name, wrong.join(", ")))
        });
        check(&at.child("usernames"), &self.usernames, errors, |at, name| {
            name.is_empty().then(|| Error::required(at, ""))
        });
    }
}

/// Reports invalid and repeated items.
fn check(at: &Path, items: &[String], errors: &mut ErrorList, invalid: impl Fn(&Path, &str) -> Option<Error>) {
    for (index, item) in items.iter().enumerate() {
        let at = at.index(index);
        if let Some(error) = invalid(&at, item) {
            errors.push(error);
        } else if items.get(..index).is_some_and(|before| before.contains(item)) {
            errors.push(Error::duplicate(&at, item.as_str()));
        }
    }
}

impl Configuration {
    /// The configuration in a decoded file; without a value, the default.
    ///
    /// # Errors
    /// If the file is of another kind, or a field is unknown or invalid.
    pub fn read(tree: &Value) -> Result<Self, ConfigurationError> {
        if tree.is_null() {
            return Ok(Self::default());
        }
        KIND.check(tree)?;
        let document = Document::deserialize(tree).map_err(ConfigurationError::undecodable)?;
        let mut errors = ErrorList::new();
        let defaults = document.defaults.read(&mut errors);
        document.exemptions.check(&mut errors);
        match errors.as_slice() {
            [] => Ok(Self { defaults, exemptions: document.exemptions }),
            errors => Err(ConfigurationError::invalid(errors)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(rest: &Value) -> Result<Configuration, String> {
        let mut tree = json!({"apiVersion": KIND.api_versions[0], "kind": KIND.kind});
        tree.as_object_mut().expect("a map").extend(rest.as_object().cloned().expect("a map"));
        Configuration::read(&tree).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_and_exemptions_are_read() {
        let found = read(&json!({
            "defaults": {"enforce": "baseline", "enforce-version": "v1.30", "warn": "restricted"},
            "exemptions": {"usernames": ["system:admin"], "namespaces": ["kube-system"], "runtimeClasses": ["kata"]},
        }))
        .expect("a configuration");
        let texts = found.defaults.modes().map(|(mode, policy)| format!("{}={policy}", mode.name));
        assert_eq!(texts, ["enforce=baseline:v1.30", "audit=privileged:latest", "warn=restricted:latest"]);
        let Exemptions { usernames, namespaces, runtime_classes } = found.exemptions;
        assert_eq!([usernames, namespaces, runtime_classes].concat(), ["system:admin", "kube-system", "kata"]);
        assert_eq!(read(&json!({})), Ok(Configuration::default()));
        assert_eq!(Configuration::read(&Value::Null), Ok(Configuration::default()));
    }

    #[test]
    fn invalid_configurations_name_their_fields() {
        for (rest, expected) in [
            (
                json!({"defaults": {"enforce": "strict", "audit-version": "1.2"}}),
                "[defaults.enforce: Invalid value: \"strict\": must be one of privileged, baseline, restricted, \
                 defaults.audit-version: Invalid value: \"1.2\": must be \"latest\" or \"v1.x\"]",
            ),
            (json!({"exemptions": {"namespaces": ["a", "a"]}}), "exemptions.namespaces[1]: Duplicate value: \"a\""),
            (json!({"exemptions": {"usernames": [""]}}), "exemptions.usernames[0]: Required value"),
            (json!({"exemptions": {"runtimeClasses": ["A"]}}), "exemptions.runtimeClasses[0]: Invalid value: \"A\": a"),
            (json!({"exemptions": {"users": []}}), "it cannot be decoded: unknown field `users`"),
            (json!({"kind": "Other"}), "it is pod-security.admission.config.k8s.io/v1 Other, not an pod-security"),
        ] {
            let found = read(&rest).expect_err("an invalid field");
            assert!(found.starts_with(expected), "{rest}: {found}");
        }
    }
}
