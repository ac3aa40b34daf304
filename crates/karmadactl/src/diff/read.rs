//! Reads the templates to compare, and the input for rendering them.

use std::sync::Arc;

use apimachinery::{ApiResource, Object, ObjectKey};
use client::{Client, Discovery, ListOptions};
use karmada_api::ApiType;
use karmada_api::identity::ClusterName;
use karmada_api::names;
use karmada_api::policy::v1alpha1::ResourceSelector;
use karmada_api::scope::{Binding, Override, Policy, Scope};
use karmada_api::work::v1alpha1::Work;
use karmada_api::work::v1alpha2::ObjectReference;
use propagation::claim::claimed_by_metadata;
use propagation::overrides::concerns;
use propagation::template::Template;
use serde_json::Value;

use super::DiffArgs;
use super::desired::{RenderInputs, Source};
use super::preview::preview;
use crate::error::Error;
use crate::objects::{self, Item, ObjectSelection};
use crate::placement::source::{bindings, clusters};
use crate::reading::{list, matching};
use crate::{Context, interpreting};

/// A template that is compared.
#[derive(Debug)]
pub struct Subject {
    pub resource: ApiResource,
    pub source: Source,
}

impl Subject {
    pub fn key(&self) -> ObjectKey {
        let template = Template(&self.source.template);
        match template.namespace() {
            "" => ObjectKey::cluster(template.name()),
            namespace => ObjectKey::namespaced(namespace, template.name()),
        }
    }

    pub fn name(&self) -> String {
        format!("{} {}", self.resource.kind, self.key())
    }

    /// As kubectl names files: group, version, kind, namespace, name.
    pub fn file_name(&self) -> String {
        let key = self.key();
        let parts = [
            self.resource.group.as_str(),
            &self.resource.version,
            &self.resource.kind,
            key.namespace().unwrap_or_default(),
            key.name(),
        ];
        let parts: Vec<String> =
            parts.iter().filter(|part| !part.is_empty()).map(|part| part.replace(':', "-")).collect();
        parts.join(".")
    }

    fn is(&self, it: &ObjectReference) -> bool {
        let template = Template(&self.source.template);
        template.kind() == it.kind && template.name() == it.name && template.namespace() == it.namespace
    }
}

type Found = (Vec<Subject>, RenderInputs, Vec<Error>);

/// The templates of the command line, with policies and overrides of its files in place of those on the server.
pub async fn subjects(context: &Context, client: &Client, args: &DiffArgs) -> Result<Found, Error> {
    let selection = ObjectSelection {
        args: &args.args,
        ..ObjectSelection::files(&args.files, args.namespace.as_deref(), Some(args.selector.as_str()))
    };
    let mut found = objects::find(context, client, selection).await?;
    let mut errors = found.take_errors();
    let discovery = objects::discovery(client).await?;
    let mut around = render_inputs(client).await?;
    let mut changed = Changed::default();
    let mut subjects = Vec::new();
    for item in found.items {
        let object = match args.files.is_empty() {
            true => item.live(context, client).await.map_err(Error::client(format!("get {}", item.shown()))),
            false => preview(context, client, &item, args).await,
        };
        match object {
            Ok(object) if changed.take(&item, &object, &mut around)? => {}
            Ok(object) => subjects.push(subject(client, &item.resource, object).await?),
            Err(error) => errors.push(error),
        }
    }
    if !changed.is_empty() {
        affected(client, &discovery, &changed, &mut subjects).await?;
    }
    Ok((subjects, around, errors))
}

async fn render_inputs(client: &Client) -> Result<RenderInputs, Error> {
    let clusters = clusters(client).await?;
    let (mut policies, mut overrides) = (Vec::new(), Vec::new());
    for scope in Scope::ALL {
        policies.extend(list(client, &Policy::api_resource(scope), None, |object| Policy::decode(object)).await?);
        overrides.extend(list(client, &Override::api_resource(scope), None, |object| Override::decode(object)).await?);
    }
    Ok(RenderInputs {
        clusters: clusters.into_iter().map(|it| (ClusterName::of(&it), it)).collect(),
        policies,
        overrides,
        interpreter: interpreting::interpreter(client).await?,
    })
}

/// A template with its binding and its Works.
async fn subject(client: &Client, resource: &ApiResource, template: Value) -> Result<Subject, Error> {
    let it = Template(&template);
    let name = names::binding_name(it.kind(), it.name());
    let key = match it.namespace() {
        "" => ObjectKey::cluster(name),
        namespace => ObjectKey::namespaced(namespace, name),
    };
    let kind = Binding::api_resource(Scope::of(&key));
    let found = client.get_opt(&kind, &key).await.map_err(Error::client(format!("get {} {key}", kind.kind)))?;
    let decoded = found.map(|object| Binding::decode(&object)).transpose();
    let binding = decoded.map_err(|error| Error::message(error.to_string()))?;
    let works = match &binding {
        Some(binding) if !binding.permanent_id().is_empty() => {
            let selector = format!("{}={}", binding.scope.binding_id_label(), binding.permanent_id());
            works(client, ListOptions::labels(selector)).await?
        }
        _ if it.kind() == "Namespace" => {
            let name = names::work_name(it.kind(), it.name(), it.namespace());
            let selecting = ListOptions { field_selector: Some(format!("metadata.name={name}")), ..Default::default() };
            works(client, selecting).await?
        }
        _ => Vec::new(),
    };
    Ok(Subject { resource: resource.clone(), source: Source { template, binding, works } })
}

async fn works(client: &Client, selecting: ListOptions) -> Result<Vec<Work>, Error> {
    let decode = |object: &Arc<Object>| Work::from_object(object);
    let mut works = matching(client, &Work::api_resource(), None, selecting, decode).await?;
    works.retain(|work| work.metadata.deletion_timestamp.is_none());
    Ok(works)
}

/// Policies and overrides of the files.
#[derive(Debug, Default)]
struct Changed {
    policies: Vec<Policy>,
    overrides: Vec<Override>,
}

impl Changed {
    fn is_empty(&self) -> bool {
        self.policies.is_empty() && self.overrides.is_empty()
    }

    /// Whether the object is a policy or an override, which then takes the place of the one on the server.
    fn take(&mut self, item: &Item, object: &Value, around: &mut RenderInputs) -> Result<bool, Error> {
        if item.resource.group != "policy.karmada.io" {
            return Ok(false);
        }
        let failed = |error: serde_json::Error| Error::message(format!("{}: {error}", item.shown()));
        let scope = Scope::of(&item.key);
        if item.resource.kind == Policy::kind(scope) {
            let policy = Policy::from_value(scope, object).map_err(failed)?;
            around.policies.retain(|it| it.scope != scope || it.key() != policy.key());
            around.policies.push(policy.clone());
            self.policies.push(policy);
        } else if item.resource.kind == Override::kind(scope) {
            let policy = Override::from_value(scope, object).map_err(failed)?;
            let known = around.overrides.iter().position(|it| it.scope == scope && it.key() == policy.key());
            // Objects that the old policy selected change too.
            self.overrides.extend(known.map(|index| around.overrides.remove(index)));
            around.overrides.push(policy.clone());
            self.overrides.push(policy);
        }
        Ok(true)
    }

    /// Whether a binding may change; overrides that select by labels need its template to be certain.
    fn may_affect(&self, binding: &Binding) -> bool {
        let claim = claimed_by_metadata(&binding.metadata);
        let is_claimed =
            |it: &Policy| claim.as_ref().is_some_and(|claim| it.scope == claim.scope() && it.key() == claim.policy);
        let resource = &binding.spec.resource;
        let names = |it: &ResourceSelector| it.kind == resource.kind && it.api_version == resource.api_version;
        let overrides = self.overrides.iter().any(|it| {
            let selectors = &it.spec.resource_selectors;
            (it.scope == Scope::Cluster || it.metadata.namespace == resource.namespace)
                && (selectors.is_empty() || selectors.iter().any(names))
        });
        overrides || self.policies.iter().any(is_claimed)
    }

    fn affects(&self, binding: &Binding, template: &Value) -> bool {
        let claim = claimed_by_metadata(&binding.metadata);
        let is_claimed =
            |it: &Policy| claim.as_ref().is_some_and(|claim| it.scope == claim.scope() && it.key() == claim.policy);
        self.policies.iter().any(is_claimed) || self.overrides.iter().any(|it| concerns(it, Template(template)))
    }
}

/// Adds the templates of bindings that a policy or an override of the files changes.
async fn affected(
    client: &Client,
    discovery: &Discovery,
    changed: &Changed,
    subjects: &mut Vec<Subject>,
) -> Result<(), Error> {
    for scope in Scope::ALL {
        for binding in bindings(client, scope, None).await? {
            let it = &binding.spec.resource;
            if !changed.may_affect(&binding) || subjects.iter().any(|known| known.is(it)) {
                continue;
            }
            let gvk = apimachinery::GroupVersionKind::from_api_version(&it.api_version, &it.kind)
                .map_err(|error| Error::message(error.to_string()))?;
            let Some(served) = discovery.by_kind(&gvk) else { continue };
            let key = match it.namespace.as_str() {
                "" => ObjectKey::cluster(it.name.as_str()),
                namespace => ObjectKey::namespaced(namespace, it.name.as_str()),
            };
            let found = client.get_opt(&served.resource, &key).await;
            let Some(object) = found.map_err(Error::client(format!("get {} {key}", it.kind)))? else { continue };
            let template = object.to_value().map_err(|error| Error::message(format!("{} {key}: {error}", it.kind)))?;
            if changed.affects(&binding, &template) {
                subjects.push(subject(client, &served.resource, template).await?);
            }
        }
    }
    Ok(())
}
