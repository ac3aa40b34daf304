//! A request in the form for webhooks and policies: names, and the objects in the matched version.

use apimachinery::object::ObjectTree as _;
use apimachinery::resource::Resource;
use apimachinery::{GroupVersionKind, ObjectKey, Status};
use apiserver::registry::Served;
use apiserver::{AdmissionRequest, Operation};
use serde_json::{Value, json};

use crate::matching::{Criteria, Subject, selects};

/// Fields of a new object that do not exist before mutation has ended.
const NOT_YET: [&str; 3] = ["uid", "creationTimestamp", "generation"];

/// Which of the two phases of admission it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Mutation,
    Validation,
}

/// The old and the new object in one version.
#[derive(Debug, Default)]
pub struct Documents {
    pub new: Option<Value>,
    pub old: Option<Value>,
}

/// The attributes of a request for webhooks and policies, without the objects.
pub struct Facts {
    pub operation: Operation,
    pub kind: GroupVersionKind,
    pub group: String,
    pub version: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub dry_run: bool,
    /// `userInfo`.
    pub user: Value,
    pub options: Value,
    /// All served versions of the resource.
    versions: Vec<String>,
}

impl Facts {
    pub fn of(request: &AdmissionRequest<'_>, served: &Served, phase: Phase) -> Self {
        let named = &request.info.resource;
        let is_namespace = named.group.is_empty() && named.plural == "namespaces";
        let namespace = if is_namespace { request.key.name() } else { request.key.namespace().unwrap_or_default() };
        let is_unnamed = request.collection || (request.generated_name && phase == Phase::Mutation);
        let versions = served.versions(&named.group, &named.plural);
        Self {
            operation: request.operation,
            kind: request.kind(),
            group: named.group.clone(),
            version: named.version.clone(),
            resource: named.plural.clone(),
            subresource: request.subresource.to_owned(),
            namespace: namespace.to_owned(),
            name: if is_unnamed { String::new() } else { request.key.name().to_owned() },
            dry_run: request.dry_run,
            user: user(request),
            options: request.options(),
            versions: versions.map(|resource| resource.info.resource.version.clone()).collect(),
        }
    }

    pub fn subject(&self) -> Subject<'_> {
        Subject {
            operation: self.operation,
            group: &self.group,
            version: &self.version,
            resource: &self.resource,
            subresource: &self.subresource,
            namespace: &self.namespace,
            name: &self.name,
        }
    }

    /// The version in which a webhook or policy gets the objects, if its rules match.
    pub fn version_for<'s>(&'s self, criteria: &Criteria) -> Option<&'s str> {
        let versions: Vec<&str> = self.versions.iter().map(String::as_str).collect();
        criteria.version(&self.subject(), &versions)
    }

    /// The kind of the objects in a version. A Scale is the same in all.
    pub fn kind_in(&self, version: &str) -> GroupVersionKind {
        if self.subresource == "scale" {
            return self.kind.clone();
        }
        GroupVersionKind { version: version.to_owned(), ..self.kind.clone() }
    }

    /// `request` of an AdmissionReview without its UID and objects, which is also the variable of expressions.
    pub fn document(&self, version: &str) -> Value {
        let kind = |kind: &GroupVersionKind| json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
        let resource = |version: &str| json!({"group": self.group, "version": version, "resource": self.resource});
        let mut document = json!({
            "kind": kind(&self.kind_in(version)),
            "resource": resource(version),
            "requestKind": kind(&self.kind),
            "requestResource": resource(&self.version),
            "operation": crate::matching::operation_name(self.operation),
            "userInfo": self.user,
            "dryRun": self.dry_run,
            "options": self.options,
        });
        for (field, text) in [
            ("subResource", &self.subresource),
            ("requestSubResource", &self.subresource),
            ("name", &self.name),
            ("namespace", &self.namespace),
        ] {
            if !text.is_empty() {
                document[field] = text.as_str().into();
            }
        }
        document
    }
}

fn user(request: &AdmissionRequest<'_>) -> Value {
    let mut user = json!({});
    let transport::Identity { user: name, uid, groups, extra } = request.user;
    for (field, text) in [("username", name), ("uid", uid)] {
        if !text.is_empty() {
            user[field] = text.as_str().into();
        }
    }
    if !groups.is_empty() {
        user["groups"] = json!(groups);
    }
    if !extra.is_empty() {
        let extra = extra.iter().map(|(key, values)| (key.clone(), json!(values)));
        user["extra"] = Value::Object(extra.collect());
    }
    user
}

/// The objects of a request in a version. A webhook may convert them.
///
/// # Errors
/// If an object cannot be converted.
pub async fn documents(
    request: &AdmissionRequest<'_>,
    served: &Served,
    facts: &Facts,
    version: &str,
    phase: Phase,
) -> Result<Documents, Status> {
    let mut documents = own_documents(request, phase)?;
    if version != facts.version && facts.subresource != "scale" {
        for document in [&mut documents.new, &mut documents.old].into_iter().flatten() {
            *document = convert(request, served, facts, document.take(), (&facts.version, version)).await?;
        }
    }
    Ok(documents)
}

/// The objects in the version of the request.
fn own_documents(request: &AdmissionRequest<'_>, phase: Phase) -> Result<Documents, Status> {
    let mut new = request.object_document()?;
    if let (Some(metadata), Operation::Create, Phase::Mutation) =
        (new.as_mut().and_then(|new| new.metadata_mut()), request.operation, phase)
    {
        metadata.retain(|field, _| !NOT_YET.contains(&field.as_str()));
        if request.generated_name {
            metadata.remove("name");
        }
    }
    Ok(Documents { new, old: request.old_document()? })
}

fn find<'s>(served: &'s Served, facts: &Facts, version: &str) -> Result<&'s Resource, Status> {
    let unknown = || Status::internal(format!("unable to convert to {}/{version}: unknown version", facts.group));
    served.get(&facts.group, version, &facts.resource).ok_or_else(unknown)
}

/// An object in another version of its resource, which a webhook may convert.
///
/// # Errors
/// If a version is no longer served, or a conversion fails.
pub async fn convert(
    request: &AdmissionRequest<'_>,
    served: &Served,
    facts: &Facts,
    document: Value,
    versions: (&str, &str),
) -> Result<Value, Status> {
    let versions = (find(served, facts, versions.0)?, find(served, facts, versions.1)?);
    request.converted(versions, document).await
}

/// The stored Namespace of a request; `None` for an object without one.
///
/// # Errors
/// NotFound, or if it cannot be read.
pub fn namespace(request: &AdmissionRequest<'_>, facts: &Facts) -> Result<Option<Value>, Status> {
    if facts.namespace.is_empty() {
        return Ok(None);
    }
    let found = request.stored("", "namespaces", &ObjectKey::cluster(&facts.namespace))?;
    let found = found.ok_or_else(|| Status::not_found("", "namespaces", &facts.namespace))?;
    found.to_value().map(Some).map_err(Status::internal)
}

/// The name of the object in a refusal by a policy, which may not have its own yet, or be any of a collection.
pub fn shown_name<'a>(request: &'a AdmissionRequest<'_>, facts: &'a Facts) -> &'a str {
    let metadata = request.object.as_deref().map(|object| &object["metadata"]);
    let field = |field: &str| metadata.and_then(|metadata| metadata[field].as_str()).filter(|text| !text.is_empty());
    match facts.name.as_str() {
        "" if request.generated_name => field("generateName").unwrap_or("Unknown"),
        "" => field("name").unwrap_or("Unknown"),
        name => name,
    }
}

/// Whether a namespace selector matches. A cluster-scoped object is never exempt.
///
/// # Errors
/// If the selector is invalid, or the namespace is unknown.
pub fn is_in_selected_namespace(
    request: &AdmissionRequest<'_>,
    facts: &Facts,
    criteria: &Criteria,
) -> Result<bool, Status> {
    let subject = facts.subject();
    if facts.namespace.is_empty() && !subject.is_namespace() {
        return Ok(true);
    }
    let selector = criteria.namespaces.as_ref().map_err(Status::internal)?;
    if selector.is_everything() {
        return Ok(true);
    }
    // The stored namespace is not yet the one that is written.
    let is_written = subject.is_namespace() && facts.subresource.is_empty() && facts.operation != Operation::Delete;
    if let Some(object) = request.object.as_deref().filter(|_| is_written) {
        return Ok(selects(selector, object));
    }
    Ok(namespace(request, facts)?.is_some_and(|namespace| selects(selector, &namespace)))
}
