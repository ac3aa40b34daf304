//! Roles, their bindings, and ServiceAccounts.

use serde_json::Value;

use super::super::lines::Lines;
use super::{Related, items, text};

/// The rights of one resource, or one verb on one URL.
#[derive(Debug, Default, PartialEq)]
struct Rule {
    group: String,
    resource: String,
    name: Option<String>,
    url: Option<String>,
    verbs: Vec<String>,
}

pub fn role(lines: &mut Lines, object: &Value) {
    head(lines, &object["metadata"]);
    lines.text(0, "PolicyRule:");
    lines.text(1, "Resources\tNon-Resource URLs\tResource Names\tVerbs");
    lines.text(1, "---------\t-----------------\t--------------\t-----");
    for rule in rules(&object["rules"]) {
        let list = |item: &Option<String>| format!("[{}]", item.as_deref().unwrap_or_default());
        let (url, name, verbs) = (list(&rule.url), list(&rule.name), rule.verbs.join(" "));
        lines.text(1, &format!("{}\t{url}\t{name}\t[{verbs}]", rule.target()));
    }
}

impl Rule {
    /// `pods.apps/log`
    fn target(&self) -> String {
        if self.group.is_empty() {
            return self.resource.clone();
        }
        match self.resource.split_once('/') {
            Some((resource, subresource)) => format!("{resource}.{}/{subresource}", self.group),
            None => format!("{}.{}", self.resource, self.group),
        }
    }

    /// kubectl sorts rules by the text of their protobuf messages.
    fn place(&self) -> String {
        let (verbs, name, url) = (self.verbs.join(" "), self.name.as_deref(), self.url.as_deref());
        let (name, url) = (name.unwrap_or_default(), url.unwrap_or_default());
        format!("[{verbs}],[{}],[{}],[{name}],[{url}]", self.group, self.resource)
    }
}

/// One rule for each resource and name, with all verbs.
fn rules(of: &Value) -> Vec<Rule> {
    let texts = |list: &Value| items(list).map(text).collect::<Vec<_>>();
    let mut found: Vec<Rule> = Vec::new();
    for rule in items(of) {
        let verbs = texts(&rule["verbs"]);
        let mut names: Vec<Option<String>> = items(&rule["resourceNames"]).map(|name| Some(text(name))).collect();
        if names.is_empty() {
            names.push(None);
        }
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                for name in &names {
                    let is_same = |it: &&mut Rule| {
                        (&it.group, &it.resource, &it.name, &it.url) == (&group, &resource, name, &None)
                    };
                    match found.iter_mut().find(is_same) {
                        Some(known) => {
                            let more: Vec<String> =
                                verbs.iter().filter(|verb| !known.verbs.contains(verb)).cloned().collect();
                            known.verbs.extend(more);
                        }
                        None => found.push(Rule {
                            group: group.clone(),
                            resource: resource.clone(),
                            name: name.clone(),
                            url: None,
                            verbs: verbs.clone(),
                        }),
                    }
                }
            }
        }
        for url in texts(&rule["nonResourceURLs"]) {
            let one = |verb: &String| Rule { url: Some(url.clone()), verbs: vec![verb.clone()], ..Rule::default() };
            found.extend(verbs.iter().map(one));
        }
    }
    found.sort_by_key(Rule::place);
    found
}

pub fn binding(lines: &mut Lines, object: &Value) {
    head(lines, &object["metadata"]);
    lines.text(0, "Role:");
    for (label, field) in [("Kind:", "kind"), ("Name:", "name")] {
        lines.text(1, &format!("{label}\t{}", text(&object["roleRef"][field])));
    }
    lines.text(0, "Subjects:");
    lines.text(1, "Kind\tName\tNamespace");
    lines.text(1, "----\t----\t---------");
    for subject in items(&object["subjects"]) {
        let [kind, name, namespace] = ["kind", "name", "namespace"].map(|field| text(&subject[field]));
        lines.text(1, &format!("{kind}\t{name}\t{namespace}"));
    }
}

fn head(lines: &mut Lines, metadata: &Value) {
    lines.text(0, &format!("Name:\t{}", text(&metadata["name"])));
    lines.map(0, "Labels:", &metadata["labels"], "=");
    lines.map(0, "Annotations:", &metadata["annotations"], ": ");
}

pub fn service_account(lines: &mut Lines, object: &Value, related: &Related) {
    const OWNER: &str = "kubernetes.io/service-account.name";
    let metadata = &object["metadata"];
    lines.text(0, &format!("Name:\t{}", text(&metadata["name"])));
    lines.text(0, &format!("Namespace:\t{}", text(&metadata["namespace"])));
    lines.map(0, "Labels:", &metadata["labels"], "=");
    lines.map(0, "Annotations:", &metadata["annotations"], ": ");
    let name = |item: &Value| text(&item["name"]);
    let is_token = |secret: &&Value| {
        secret["type"] == "kubernetes.io/service-account-token"
            && secret["metadata"]["annotations"][OWNER] == metadata["name"]
    };
    let tokens = related.secrets.iter().filter(is_token).map(|secret| text(&secret["metadata"]["name"]));
    for (label, names) in [
        ("Image pull secrets:", items(&object["imagePullSecrets"]).map(name).collect::<Vec<_>>()),
        ("Mountable secrets:", items(&object["secrets"]).map(name).collect()),
        ("Tokens:", tokens.collect()),
    ] {
        if names.is_empty() {
            lines.text(0, &format!("{label}\t<none>"));
        }
        for (position, name) in names.iter().enumerate() {
            let is_there = related.secrets.iter().any(|secret| secret["metadata"]["name"] == name.as_str());
            let (label, end) = (if position == 0 { label } else { "" }, if is_there { "" } else { " (not found)" });
            lines.text(0, &format!("{label}\t{name}{end}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_are_broken_down_and_joined_by_resource() {
        let of = json!([
            {"apiGroups": ["", "apps"], "resources": ["pods/log"], "resourceNames": ["x"], "verbs": ["get", "list"]},
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
            {"nonResourceURLs": ["/a"], "verbs": ["get", "put"]},
            {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]},
            {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list", "get"]},
        ]);
        let shown = |rule: &Rule| {
            let (name, url) = (rule.name.as_deref().unwrap_or("-"), rule.url.as_deref().unwrap_or("-"));
            format!("{} {name} {url} {}", rule.target(), rule.verbs.join(","))
        };
        let found: Vec<String> = rules(&of).iter().map(shown).collect();
        assert_eq!(
            found,
            [
                "*.* - - *",
                "pods/log x - get,list",
                "deployments.apps - - get,list",
                "pods.apps/log x - get,list",
                " - /a get",
                " - /a put",
            ]
        );
        assert!(rules(&Value::Null).is_empty());
    }
}
