//! The options of writes: query parameters, and for DELETE the body.

use apimachinery::Status;
use apimachinery::field::{Error as FieldError, Path};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Call;
use crate::request::Query;
use crate::request::options::{Write, WriteOptions, dry_run_errors, integer};
use crate::wire::body;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeleteOptions {
    pub dry_run: Vec<String>,
    pub grace_period_seconds: Option<i64>,
    pub propagation_policy: Option<String>,
    pub orphan_dependents: Option<bool>,
    pub preconditions: Option<Preconditions>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Preconditions {
    pub uid: Option<String>,
    pub resource_version: Option<String>,
}

impl Preconditions {
    /// Those of the query, where an empty one counts as absent. The version of a deleted collection is that of its list.
    fn of(query: &Query, is_collection: bool) -> Option<Self> {
        let text = |name| query.text(name).map(str::to_owned);
        let found = Self { uid: text("uid"), resource_version: text("resourceVersion").filter(|_| !is_collection) };
        (found.uid.is_some() || found.resource_version.is_some()).then_some(found)
    }
}

impl DeleteOptions {
    pub(crate) fn is_dry_run(&self) -> bool {
        !self.dry_run.is_empty()
    }

    /// The document that admission shows to users' programs.
    pub(super) fn document(&self) -> Value {
        let mut document = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
        let mut set = |name: &str, value: Value| {
            if !value.is_null() {
                document[name] = value;
            }
        };
        set("gracePeriodSeconds", self.grace_period_seconds.into());
        set("orphanDependents", self.orphan_dependents.into());
        set("propagationPolicy", self.propagation_policy.clone().into());
        if let Some(Preconditions { uid, resource_version }) = &self.preconditions {
            let conditions = [("uid", uid), ("resourceVersion", resource_version)];
            let conditions =
                conditions.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?.into())));
            set("preconditions", Value::Object(conditions.collect()));
        }
        if self.is_dry_run() {
            set("dryRun", self.dry_run.clone().into());
        }
        document
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
            let known = ["Foreground", "Background", "Orphan", "nil"];
            errors.push(FieldError::not_supported(&Path::new("propagationPolicy"), policy.as_str(), &known));
        }
        errors.extend(dry_run_errors(&self.dry_run));
        if errors.is_empty() { Ok(()) } else { Err(Status::invalid("meta.k8s.io", "DeleteOptions", "", &errors)) }
    }
}

impl Call<'_> {
    pub(crate) fn write_options(&self, write: Write) -> Result<WriteOptions, Status> {
        WriteOptions::parse(&self.info.query, write)
    }

    /// With a body the query is ignored, as in kube-apiserver.
    pub(crate) fn delete_options(&self, body: &[u8]) -> Result<DeleteOptions, Status> {
        let options = if body.is_empty() {
            let query = &self.info.query;
            DeleteOptions {
                dry_run: query.all("dryRun").map(str::to_owned).collect(),
                grace_period_seconds: integer(query, "gracePeriodSeconds")?,
                propagation_policy: query.get("propagationPolicy").map(str::to_owned),
                orphan_dependents: query.get("orphanDependents").map(|_| query.flag("orphanDependents")),
                preconditions: Preconditions::of(query, self.info.verb == "deletecollection"),
            }
        } else {
            let tree: Value = body::decode(self.headers, body)?;
            super::type_meta::check_options(&tree, "DeleteOptions").map_err(Status::bad_request)?;
            serde_json::from_value(if tree.is_null() { json!({}) } else { tree })
                .map_err(|e| Status::bad_request(format!("error decoding DeleteOptions: {e}")))?
        };
        options.check()?;
        Ok(options)
    }
}
