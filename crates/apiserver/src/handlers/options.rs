//! The options of writes: query parameters, and for DELETE the body.

use apimachinery::Status;
use apimachinery::field::{Error as FieldError, Path};
use serde::Deserialize;
use serde_json::Value;

use super::Call;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct DeleteOptions {
    kind: String,
    pub dry_run: Vec<String>,
    pub grace_period_seconds: Option<i64>,
    pub propagation_policy: Option<String>,
    pub orphan_dependents: Option<bool>,
    pub preconditions: Option<Preconditions>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Preconditions {
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}

impl DeleteOptions {
    pub(super) fn is_dry_run(&self) -> bool {
        !self.dry_run.is_empty()
    }

    fn check(&self) -> Result<(), Status> {
        let mut errors = Vec::new();
        if self.orphan_dependents.is_some() && self.propagation_policy.is_some() {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(FieldError::invalid(&Path::new("propagationPolicy"), self.propagation_policy.clone(), why));
        }
        if let Some(policy) = &self.propagation_policy
            && !matches!(policy.as_str(), "Background" | "Foreground" | "Orphan")
        {
            let known = ["Background", "Foreground", "Orphan", "nil"];
            errors.push(FieldError::not_supported(&Path::new("propagationPolicy"), policy.as_str(), &known));
        }
        if self.dry_run.iter().any(|value| value != "All") {
            errors.push(FieldError::not_supported(&Path::new("dryRun"), self.dry_run.clone(), &["All"]));
        }
        if errors.is_empty() { Ok(()) } else { Err(Status::invalid("meta.k8s.io", "DeleteOptions", "", &errors)) }
    }
}

impl Call<'_> {
    /// `dryRun=All` of a create, update or patch.
    pub(super) fn dry_run(&self) -> Result<bool, Status> {
        match self.info.query.text("dryRun") {
            None => Ok(false),
            Some("All") => Ok(true),
            Some(other) => {
                let error = FieldError::not_supported(&Path::new("dryRun"), other, &["All"]);
                let kind = match self.info.verb {
                    "create" => "CreateOptions",
                    "patch" => "PatchOptions",
                    _ => "UpdateOptions",
                };
                Err(Status::invalid("meta.k8s.io", kind, "", &[error]))
            }
        }
    }

    /// With a body the query is not looked at, as in kube-apiserver.
    pub(super) fn delete_options(&self, body: &[u8]) -> Result<DeleteOptions, Status> {
        let options = if body.is_empty() {
            let query = &self.info.query;
            DeleteOptions {
                dry_run: query.text("dryRun").map(str::to_owned).into_iter().collect(),
                grace_period_seconds: query.number("gracePeriodSeconds")?.map(|seconds| seconds as i64),
                propagation_policy: query.text("propagationPolicy").map(str::to_owned),
                orphan_dependents: query.text("orphanDependents").map(|text| text != "false"),
                ..DeleteOptions::default()
            }
        } else {
            let tree: Value = super::body::decode(self.headers, body)?;
            serde_json::from_value(tree)
                .map_err(|e| Status::bad_request(format!("error decoding DeleteOptions: {e}")))?
        };
        if !options.kind.is_empty() && options.kind != "DeleteOptions" {
            return Err(Status::bad_request(format!("expected kind DeleteOptions, got {}", options.kind)));
        }
        options.check()?;
        Ok(options)
    }
}
