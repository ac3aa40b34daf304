//! The fields of an `AuthenticationConfiguration` of `apiserver.config.k8s.io`.

use serde::Deserialize;

/// Whether requests without credentials are `system:anonymous`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Anonymous {
    /// If not, they are refused.
    pub enabled: bool,
    /// The paths; empty for all.
    pub conditions: Vec<Condition>,
}

/// A path of [`Anonymous`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Condition {
    /// The whole path.
    pub path: String,
}

impl Anonymous {
    /// Whether a request of this path may be anonymous.
    pub fn allows(&self, path: &str) -> bool {
        self.enabled && (self.conditions.is_empty() || self.conditions.iter().any(|it| it.path == path))
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Document {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    pub jwt: Vec<Jwt>,
    pub anonymous: Option<Anonymous>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Jwt {
    pub issuer: IssuerDocument,
    pub claim_validation_rules: Vec<ClaimRule>,
    pub claim_mappings: Mappings,
    pub user_validation_rules: Vec<UserRule>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct IssuerDocument {
    pub url: String,
    #[serde(rename = "discoveryURL")]
    pub discovery_url: String,
    pub certificate_authority: String,
    pub audiences: Vec<String>,
    pub audience_match_policy: String,
    pub egress_selector_type: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct ClaimRule {
    pub claim: String,
    pub required_value: String,
    pub expression: String,
    pub message: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Mappings {
    pub username: Mapping,
    pub groups: Mapping,
    pub uid: UidMapping,
    pub extra: Vec<Extra>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Mapping {
    pub claim: String,
    pub prefix: Option<String>,
    pub expression: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct UidMapping {
    pub claim: String,
    pub expression: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Extra {
    pub key: String,
    pub value_expression: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct UserRule {
    pub expression: String,
    pub message: String,
}
