//! `create role|clusterrole|rolebinding|clusterrolebinding`

use std::collections::BTreeMap;

use apimachinery::ApiResource;
use clap::Args;
use client::DiscoveredResource;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::kinds::{Common, Draft, required};
use crate::error::Error;
use crate::get::targets;
use crate::{Context, objects, resources};

const GROUP: &str = "rbac.authorization.k8s.io";
const VERBS: [&str; 14] = [
    "*",
    "get",
    "delete",
    "list",
    "create",
    "update",
    "patch",
    "watch",
    "proxy",
    "deletecollection",
    "use",
    "bind",
    "escalate",
    "impersonate",
];
const VERBS_OF_URLS: [&str; 8] = ["*", "get", "post", "put", "delete", "patch", "head", "options"];
/// Verbs that only some resources have, with their groups.
const SPECIAL: [(&str, &[(&str, &str)]); 4] = [
    ("use", &[("policy", "podsecuritypolicies"), ("extensions", "podsecuritypolicies")]),
    ("bind", &[(GROUP, "roles"), (GROUP, "clusterroles")]),
    ("escalate", &[(GROUP, "roles"), (GROUP, "clusterroles")]),
    ("impersonate", &[("", "users"), ("", "serviceaccounts"), ("", "groups"), ("authentication.k8s.io", "userextras")]),
];

#[derive(Args)]
pub struct RuleArgs {
    /// Resource RESOURCE[.GROUP][/SUBRESOURCE] of the rule.
    #[arg(long, value_delimiter = ',')]
    resource: Vec<String>,
    /// Name of an object to which the rule is limited.
    #[arg(long)]
    resource_name: Vec<String>,
    /// Verb of the rule.
    #[arg(long, value_delimiter = ',')]
    verb: Vec<String>,
}

#[derive(Args)]
pub struct RoleArgs {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    rule: RuleArgs,
}

#[derive(Args)]
pub struct ClusterRoleArgs {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    rule: RuleArgs,
    /// Labels KEY=VALUE of the cluster roles that are combined.
    #[arg(long, value_delimiter = ',')]
    aggregation_rule: Vec<String>,
    /// Path, which may end with *, of the rule.
    #[arg(long = "non-resource-url", value_delimiter = ',')]
    non_resource_url: Vec<String>,
}

#[derive(Args)]
pub struct Subjects {
    /// Group that is bound to the role.
    #[arg(long)]
    group: Vec<String>,
    /// Service account NAMESPACE:NAME that is bound to the role.
    #[arg(long)]
    serviceaccount: Vec<String>,
    /// User that is bound to the role.
    #[arg(long)]
    user: Vec<String>,
}

#[derive(Args)]
pub struct BindingArgs {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    subjects: Subjects,
    /// Cluster role of the binding.
    #[arg(long, default_value = "")]
    clusterrole: String,
}

#[derive(Args)]
pub struct RoleBindingArgs {
    #[command(flatten)]
    pub(super) binding: BindingArgs,
    /// Role of the binding.
    #[arg(long, default_value = "")]
    role: String,
}

/// In the order of the command line.
fn distinct(words: &[String]) -> Vec<&str> {
    let mut distinct: Vec<&str> = Vec::new();
    for word in words {
        if !distinct.contains(&word.as_str()) {
            distinct.push(word);
        }
    }
    distinct
}

/// `RESOURCE[.GROUP][/SUBRESOURCE]`
struct Named<'r> {
    resource: &'r str,
    group: &'r str,
    subresource: &'r str,
}

impl<'r> Named<'r> {
    fn parse(text: &'r str) -> Self {
        let (name, subresource) = text.split_once('/').unwrap_or((text, ""));
        let (resource, group) = name.split_once('.').unwrap_or((name, ""));
        Self { resource, group, subresource }
    }

    /// The group and plural of the served resource, which may be named by its short or singular name.
    fn served<'s>(&self, served: &'s [DiscoveredResource]) -> Option<(&'s str, &'s str)> {
        let type_ =
            if self.group.is_empty() { self.resource.to_owned() } else { format!("{}.{}", self.resource, self.group) };
        let found = targets::resolve(&type_, served);
        found.first().map(|found| (found.resource.group.as_str(), found.resource.plural.as_str()))
    }
}

impl RuleArgs {
    fn verbs(&self) -> Vec<&str> {
        if self.verb.iter().any(|verb| verb == "*") { vec!["*"] } else { distinct(&self.verb) }
    }

    fn named(&self) -> Vec<Named<'_>> {
        let all = self.resource.iter().find(|resource| *resource == "*");
        all.map_or_else(|| self.resource.iter().map(|text| Named::parse(text)).collect(), |all| vec![Named::parse(all)])
    }

    /// One rule for each group; `served` are the resources of the server.
    fn rules(&self, served: &[DiscoveredResource]) -> Result<Vec<Value>, Error> {
        let (verbs, names) = (self.verbs(), distinct(&self.resource_name));
        let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        let named = self.named();
        check(&named, &verbs, served)?;
        for one in &named {
            let (group, plural) = one.served(served).unwrap_or((one.group, one.resource));
            let resource =
                if one.subresource.is_empty() { plural.to_owned() } else { format!("{plural}/{}", one.subresource) };
            let resources = groups.entry(group).or_default();
            if !resources.contains(&resource) {
                resources.push(resource);
            }
        }
        let rule = |(group, resources): (&str, Vec<String>)| {
            let mut rule = json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
            if !names.is_empty() {
                rule["resourceNames"] = json!(names);
            }
            rule
        };
        Ok(groups.into_iter().map(rule).collect())
    }

    fn warn(&self, context: &Context) {
        for verb in self.verbs().into_iter().filter(|verb| !VERBS.contains(verb)) {
            context.log(&format!("Warning: '{verb}' is not a standard resource verb\n"));
        }
    }
}

/// Resources have to exist, unless a verb names them, and verbs have to fit.
fn check(named: &[Named<'_>], verbs: &[&str], served: &[DiscoveredResource]) -> Result<(), Error> {
    for one in named {
        if one.resource.is_empty() {
            return Err(Error::message("resource must be specified if apiGroup/subresource specified"));
        }
        if one.resource == "*" {
            return Ok(());
        }
        let found = one.served(served);
        let (group, plural) = found.unwrap_or((one.group, one.resource));
        let mut is_known = found.is_some();
        for (verb, resources) in SPECIAL.iter().filter(|(verb, _)| verbs.contains(verb)) {
            if !resources.contains(&(group, plural)) {
                return Err(Error::message(format!("can not perform '{verb}' on '{plural}' in group '{group}'")));
            }
            is_known = true;
        }
        if !is_known {
            let group = if one.group.is_empty() { String::new() } else { format!(" in group {:?}", one.group) };
            let text = format!("the server doesn't have a resource type {:?}{group}", one.resource);
            return Err(Error::UnknownType(text));
        }
    }
    Ok(())
}

/// The resources of the server; none if the rule needs none.
fn served(context: &Context, is_needed: bool) -> BoxFuture<'_, Result<Vec<DiscoveredResource>, Error>> {
    Box::pin(async move {
        if !is_needed {
            return Ok(Vec::new());
        }
        let client = context.control_plane().await?;
        Ok(objects::discovery(&client).await?.resources)
    })
}

impl RoleArgs {
    pub(super) fn draft<'a>(&'a self, context: &'a Context, name: &'a str) -> BoxFuture<'a, Result<Draft, Error>> {
        Box::pin(async move {
            if self.rule.verb.is_empty() {
                return Err(Error::message("at least one verb must be specified"));
            }
            self.rule.warn(context);
            if self.rule.resource.is_empty() {
                return Err(Error::message("at least one resource must be specified"));
            }
            let served = served(context, self.rule.named().iter().any(|one| one.resource != "*")).await?;
            let object = json!({
                "apiVersion": format!("{GROUP}/v1"), "kind": "Role", "metadata": {"name": name},
                "rules": self.rule.rules(&served)?,
            });
            Ok(Draft::new(ApiResource::namespaced(GROUP, "v1", "Role", "roles"), "", object))
        })
    }
}

impl ClusterRoleArgs {
    pub(super) fn draft<'a>(&'a self, context: &'a Context, name: &'a str) -> BoxFuture<'a, Result<Draft, Error>> {
        Box::pin(async move {
            let mut object = json!({
                "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRole", "metadata": {"name": name}, "rules": null,
            });
            if self.aggregation_rule.is_empty() {
                self.check(context)?;
                let served = served(context, self.rule.named().iter().any(|one| one.resource != "*")).await?;
                let mut rules = self.rule.rules(&served)?;
                if !self.non_resource_url.is_empty() {
                    rules.push(json!({"nonResourceURLs": self.non_resource_url, "verbs": self.rule.verbs()}));
                }
                object["rules"] = rules.into();
            } else {
                object["aggregationRule"] = self.aggregation()?;
            }
            Ok(Draft::new(resources::CLUSTER_ROLE.clone(), "", object))
        })
    }

    fn aggregation(&self) -> Result<Value, Error> {
        let RuleArgs { resource, resource_name, verb } = &self.rule;
        if [resource, resource_name, verb, &self.non_resource_url].iter().any(|flags| !flags.is_empty()) {
            return Err(Error::message(
                "aggregation rule must be specified without nonResourceURLs, verbs, resources or resourceNames",
            ));
        }
        let mut labels = serde_json::Map::new();
        for pair in &self.aggregation_rule {
            let (key, value) = pair.split_once('=').ok_or_else(|| {
                Error::Flag(format!(
                    "invalid argument {pair:?} for \"--aggregation-rule\" flag: malformed pair, expect string=string"
                ))
            })?;
            labels.insert(key.to_owned(), value.into());
        }
        Ok(json!({"clusterRoleSelectors": [{"matchLabels": labels}]}))
    }

    fn check(&self, context: &Context) -> Result<(), Error> {
        let refuse = |text: String| Err(Error::message(text));
        if self.rule.verb.is_empty() {
            return refuse("at least one verb must be specified".to_owned());
        }
        if self.rule.resource.is_empty() && self.non_resource_url.is_empty() {
            return refuse("one of resource or nonResourceURL must be specified".to_owned());
        }
        if !self.rule.resource.is_empty() {
            self.rule.warn(context);
        }
        if self.non_resource_url.is_empty() {
            return Ok(());
        }
        if let Some(verb) = self.rule.verbs().into_iter().find(|verb| !VERBS_OF_URLS.contains(verb)) {
            return refuse(format!("invalid verb: '{verb}' for nonResourceURL"));
        }
        for url in self.non_resource_url.iter().filter(|url| *url != "*") {
            if !url.starts_with('/') {
                return refuse("nonResourceURL should start with /".to_owned());
            }
            if url.strip_suffix('*').unwrap_or(url).contains('*') {
                return refuse("nonResourceURL only supports wildcard matches when '*' is at the end".to_owned());
            }
        }
        Ok(())
    }
}

impl Subjects {
    fn list(&self) -> Result<Vec<Value>, Error> {
        let mut subjects = Vec::new();
        for (kind, names) in [("User", &self.user), ("Group", &self.group)] {
            subjects.extend(names.iter().map(|name| json!({"apiGroup": GROUP, "kind": kind, "name": name})));
        }
        for account in &self.serviceaccount {
            let parts: Vec<&str> = account.split(':').collect();
            let [namespace, name] = parts[..] else {
                return Err(Error::message("serviceaccount must be <namespace>:<name>"));
            };
            if namespace.is_empty() || name.is_empty() {
                return Err(Error::message("serviceaccount must be <namespace>:<name>"));
            }
            subjects.push(json!({"kind": "ServiceAccount", "name": name, "namespace": namespace}));
        }
        Ok(subjects)
    }

    fn binding(&self, kind: &str, name: &str, role: (&str, &str)) -> Result<Value, Error> {
        let mut object = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": {"name": name},
            "roleRef": {"apiGroup": GROUP, "kind": role.0, "name": role.1},
        });
        let subjects = self.list()?;
        if !subjects.is_empty() {
            object["subjects"] = subjects.into();
        }
        Ok(object)
    }
}

impl BindingArgs {
    pub(super) fn draft(&self, name: &str) -> Result<Draft, Error> {
        required(&[("clusterrole", !self.clusterrole.is_empty())])?;
        let object = self.subjects.binding("ClusterRoleBinding", name, ("ClusterRole", &self.clusterrole))?;
        Ok(Draft::new(resources::CLUSTER_ROLE_BINDING.clone(), "failed to create clusterrolebinding: ", object))
    }
}

impl RoleBindingArgs {
    pub(super) fn draft(&self, name: &str) -> Result<Draft, Error> {
        let role = match (self.binding.clusterrole.as_str(), self.role.as_str()) {
            ("", role) if !role.is_empty() => ("Role", role),
            (role, "") if !role.is_empty() => ("ClusterRole", role),
            _ => return Err(Error::message("exactly one of clusterrole or role must be specified")),
        };
        let object = self.binding.subjects.binding("RoleBinding", name, role)?;
        let resource = ApiResource::namespaced(GROUP, "v1", "RoleBinding", "rolebindings");
        Ok(Draft::new(resource, "failed to create rolebinding: ", object))
    }
}
