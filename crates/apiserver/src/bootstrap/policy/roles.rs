//! The bootstrap roles as data. Facts from the Kubernetes documentation of default roles and of RBAC bootstrapping.
//! Roles of users and of the server's own controllers are here; the roles of other cluster components are in
//! `components.txt`.

use crate::auth::authz::PolicyRule;

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];
const ALL: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

const TO_ADMIN: &str = "rbac.authorization.k8s.io/aggregate-to-admin";
const TO_EDIT: &str = "rbac.authorization.k8s.io/aggregate-to-edit";
const TO_VIEW: &str = "rbac.authorization.k8s.io/aggregate-to-view";

pub(super) type Pairs = &'static [(&'static str, &'static str)];
type Labels = Vec<(&'static str, &'static str)>;

/// Name, the label whose bearers it gathers, its own labels.
pub(super) const AGGREGATED: &[(&str, &str, Pairs)] =
    &[("admin", TO_ADMIN, &[]), ("edit", TO_EDIT, &[(TO_ADMIN, "true")]), ("view", TO_VIEW, &[(TO_EDIT, "true")])];

/// Roles of parts that do not run here.
const COMPONENTS: &str = include_str!("components.txt");

/// The prefix of a controller's role; the rest is its own name, which is that of its service account in `kube-system`.
pub(super) const CONTROLLER: &str = "system:controller:";

/// Name, role, subjects.
pub(super) const BINDINGS: &[(&str, &str, Pairs)] = &[
    ("cluster-admin", "cluster-admin", &[("Group", "system:masters")]),
    ("system:monitoring", "system:monitoring", &[("Group", "system:monitoring")]),
    ("system:discovery", "system:discovery", &[("Group", "system:authenticated")]),
    ("system:basic-user", "system:basic-user", &[("Group", "system:authenticated")]),
    (
        "system:public-info-viewer",
        "system:public-info-viewer",
        &[("Group", "system:authenticated"), ("Group", "system:unauthenticated")],
    ),
    (
        "system:service-account-issuer-discovery",
        "system:service-account-issuer-discovery",
        &[("Group", "system:serviceaccounts")],
    ),
    ("system:kube-controller-manager", "system:kube-controller-manager", &[("User", "system:kube-controller-manager")]),
    ("system:kube-dns", "system:kube-dns", &[("ServiceAccount", "kube-dns")]),
    ("system:kube-scheduler", "system:kube-scheduler", &[("User", "system:kube-scheduler")]),
    // Nodes are authorized individually; the role documents their rights.
    ("system:node", "system:node", &[]),
    ("system:node-proxier", "system:node-proxier", &[("User", "system:kube-proxy")]),
    ("system:volume-scheduler", "system:volume-scheduler", &[("User", "system:kube-scheduler")]),
];

/// The rules of an aggregated role from the bootstrap roles alone, as its controller computes them: the rules of the
/// roles with its label, in the order of their names, each once.
pub(super) fn aggregated(label: &str) -> Vec<PolicyRule> {
    let bears = |labels: &[(&str, &str)]| labels.iter().any(|(key, _)| *key == label);
    let plain = plain().into_iter().filter(|(_, labels, _)| bears(labels)).map(|(name, _, rules)| (name, rules));
    // The chain admin <- edit <- view has two links, so this ends.
    let chained =
        AGGREGATED.iter().filter(|(_, _, labels)| bears(labels)).map(|(name, from, _)| (*name, aggregated(from)));
    let mut roles: Vec<_> = plain.chain(chained).collect();
    roles.sort_by_key(|(name, _)| *name);
    let mut rules = Vec::new();
    for rule in roles.into_iter().flat_map(|(_, rules)| rules) {
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    rules
}

/// Name, labels, rules.
pub(super) fn plain() -> Vec<(&'static str, Labels, Vec<PolicyRule>)> {
    let mut roles = vec![
        ("cluster-admin", vec![], vec![PolicyRule::everything(), PolicyRule::every_path()]),
        ("system:aggregate-to-admin", vec![(TO_ADMIN, "true")], admin()),
        ("system:aggregate-to-edit", vec![(TO_EDIT, "true")], edit()),
        ("system:aggregate-to-view", vec![(TO_VIEW, "true")], view()),
    ];
    roles.extend(public());
    roles.extend(components());
    roles.extend(controllers());
    roles.extend(others());
    roles
}

/// The roles of [`COMPONENTS`].
fn others() -> Vec<(&'static str, Labels, Vec<PolicyRule>)> {
    let mut roles: Vec<(&'static str, Labels, Vec<PolicyRule>)> = Vec::new();
    for line in COMPONENTS.lines().filter(|line| !line.starts_with('#')) {
        match (line.strip_prefix(' '), roles.last_mut()) {
            (Some(rule), Some((.., rules))) => rules.extend(listed(rule)),
            _ => roles.push((line, vec![], Vec::new())),
        }
    }
    roles
}

/// A line of [`COMPONENTS`]; `None` for one that cannot be read, which a test finds.
fn listed(line: &str) -> Option<PolicyRule> {
    let words = |text: &str| -> Vec<String> {
        let words = text.trim().split(',').filter(|word| !word.is_empty());
        words.map(|word| if word == "core" { String::new() } else { word.to_owned() }).collect()
    };
    let mut parts = line.split('|');
    let mut rule = PolicyRule {
        verbs: words(parts.next()?),
        api_groups: words(parts.next()?),
        resources: words(parts.next()?),
        ..PolicyRule::default()
    };
    rule.resource_names = parts.next().map(words).unwrap_or_default();
    Some(rule)
}

fn public() -> Vec<(&'static str, Labels, Vec<PolicyRule>)> {
    let probes = ["/healthz", "/livez", "/readyz", "/version", "/version/"];
    let discovery = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"];
    let discovery: Vec<&str> = discovery.into_iter().chain(probes).collect();
    let metrics = [
        "/healthz",
        "/healthz/*",
        "/livez",
        "/livez/*",
        "/metrics",
        "/metrics/slis",
        "/readyz",
        "/readyz/*",
        "/flagz",
        "/statusz",
    ];
    let issuer = [
        "/.well-known/openid-configuration",
        "/.well-known/openid-configuration/",
        "/openid/v1/jwks",
        "/openid/v1/jwks/",
    ];
    let self_reviews = PolicyRule::new(
        &["create"],
        &["authorization.k8s.io"],
        &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
    );
    let who_am_i = PolicyRule::new(&["create"], &["authentication.k8s.io"], &["selfsubjectreviews"]);
    vec![
        ("system:discovery", vec![], vec![PolicyRule::paths(&["get"], &discovery)]),
        ("system:monitoring", vec![], vec![PolicyRule::paths(&["get"], &metrics)]),
        ("system:basic-user", vec![], vec![self_reviews, who_am_i]),
        ("system:public-info-viewer", vec![], vec![PolicyRule::paths(&["get"], &probes)]),
        ("system:service-account-issuer-discovery", vec![], vec![PolicyRule::paths(&["get"], &issuer)]),
    ]
}

fn components() -> Vec<(&'static str, Labels, Vec<PolicyRule>)> {
    let delegation = vec![
        PolicyRule::new(&["create"], &["authentication.k8s.io"], &["tokenreviews"]),
        PolicyRule::new(&["create"], &["authorization.k8s.io"], &["subjectaccessreviews"]),
    ];
    let signer = |name| vec![PolicyRule::new(&["approve"], &["certificates.k8s.io"], &["signers"]).named(&[name])];
    vec![
        ("system:auth-delegator", vec![], delegation.clone()),
        ("system:kube-controller-manager", vec![], controller_manager(delegation)),
        (
            "system:certificates.k8s.io:kube-apiserver-client-approver",
            vec![],
            signer("kubernetes.io/kube-apiserver-client"),
        ),
        ("system:controller:generic-garbage-collector", vec![], {
            let collect = ["delete", "get", "list", "patch", "update", "watch"];
            vec![PolicyRule::new(&collect, &["*"], &["*"]), events()]
        }),
        ("system:controller:namespace-controller", vec![], {
            let namespaces = PolicyRule::new(&["delete", "get", "list", "watch"], &[""], &["namespaces"]);
            let parts = PolicyRule::new(&["update"], &[""], &["namespaces/finalize", "namespaces/status"]);
            let content = PolicyRule::new(&["delete", "deletecollection", "get", "list"], &["*"], &["*"]);
            vec![namespaces, parts, content]
        }),
        ("system:controller:clusterrole-aggregation-controller", vec![], {
            let verbs = ["escalate", "get", "list", "patch", "update", "watch"];
            vec![PolicyRule::new(&verbs, &["rbac.authorization.k8s.io"], &["clusterroles"])]
        }),
    ]
}

/// The controllers that are not described with the components above.
fn controllers() -> Vec<(&'static str, Labels, Vec<PolicyRule>)> {
    let core = |verbs: &[&str], resources: &[&str]| PolicyRule::new(verbs, &[""], resources);
    let certificates = |verbs: &[&str], resources: &[&str]| PolicyRule::new(verbs, &["certificates.k8s.io"], resources);
    let signers = [
        "kubernetes.io/kube-apiserver-client",
        "kubernetes.io/kube-apiserver-client-kubelet",
        "kubernetes.io/kubelet-serving",
        "kubernetes.io/legacy-unknown",
    ];
    let keep = ["get", "list", "update", "watch"];
    vec![
        (
            "system:controller:certificate-controller",
            vec![],
            vec![
                certificates(&["delete", "get", "list", "watch"], &["certificatesigningrequests"]),
                certificates(
                    &["update"],
                    &["certificatesigningrequests/approval", "certificatesigningrequests/status"],
                ),
                certificates(&["approve"], &["signers"]).named(&["kubernetes.io/kube-apiserver-client-kubelet"]),
                certificates(&["sign"], &["signers"]).named(&signers),
                PolicyRule::new(&["create"], &["authorization.k8s.io"], &["subjectaccessreviews"]),
                events(),
            ],
        ),
        ("system:controller:pv-protection-controller", vec![], vec![core(&keep, &["persistentvolumes"]), events()]),
        (
            "system:controller:pvc-protection-controller",
            vec![],
            vec![core(&keep, &["persistentvolumeclaims"]), core(READ, &["pods"]), events()],
        ),
        (
            "system:controller:resourcequota-controller",
            vec![],
            vec![
                PolicyRule::new(&["list", "watch"], &["*"], &["*"]),
                core(&["update"], &["resourcequotas/status"]),
                events(),
            ],
        ),
        (
            "system:controller:root-ca-cert-publisher",
            vec![],
            vec![core(&["create", "update"], &["configmaps"]), events()],
        ),
        (
            "system:controller:service-account-controller",
            vec![],
            vec![core(&["create"], &["serviceaccounts"]), events()],
        ),
        (
            "system:controller:ttl-after-finished-controller",
            vec![],
            vec![PolicyRule::new(&["delete", "get", "list", "watch"], &["batch"], &["jobs"]), events()],
        ),
        (
            "system:node-bootstrapper",
            vec![],
            vec![certificates(&["create", "get", "list", "watch"], &["certificatesigningrequests"])],
        ),
        (
            "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
            vec![],
            vec![certificates(&["create"], &["certificatesigningrequests/nodeclient"])],
        ),
        (
            "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
            vec![],
            vec![certificates(&["create"], &["certificatesigningrequests/selfnodeclient"])],
        ),
    ]
}

fn events() -> PolicyRule {
    PolicyRule::new(&["create", "patch", "update"], &["", "events.k8s.io"], &["events"])
}

fn controller_manager(mut rules: Vec<PolicyRule>) -> Vec<PolicyRule> {
    rules.extend([
        events(),
        PolicyRule::new(&["create"], &["coordination.k8s.io"], &["leases"]),
        PolicyRule::new(&["get", "update"], &["coordination.k8s.io"], &["leases"]).named(&["kube-controller-manager"]),
        PolicyRule::new(&["create"], &[""], &["secrets", "serviceaccounts", "serviceaccounts/token"]),
        PolicyRule::new(&["delete"], &[""], &["secrets"]),
        PolicyRule::new(&["get"], &[""], &["configmaps", "namespaces", "secrets", "serviceaccounts"]),
        PolicyRule::new(&["update"], &[""], &["secrets", "serviceaccounts"]),
        PolicyRule::new(&["list", "watch"], &["*"], &["*"]),
    ]);
    rules
}

fn admin() -> Vec<PolicyRule> {
    vec![
        PolicyRule::new(&["create"], &["authorization.k8s.io"], &["localsubjectaccessreviews"]),
        PolicyRule::new(ALL, &["rbac.authorization.k8s.io"], &["rolebindings", "roles"]),
    ]
}

fn edit() -> Vec<PolicyRule> {
    let workloads = [
        "daemonsets",
        "deployments",
        "deployments/rollback",
        "deployments/scale",
        "replicasets",
        "replicasets/scale",
        "statefulsets",
        "statefulsets/scale",
    ];
    let core = [
        "configmaps",
        "events",
        "persistentvolumeclaims",
        "replicationcontrollers",
        "replicationcontrollers/scale",
        "secrets",
        "serviceaccounts",
        "services",
        "services/proxy",
    ];
    let connect = ["pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets", "services/proxy"];
    vec![
        PolicyRule::new(READ, &[""], &connect),
        PolicyRule::new(&["impersonate"], &[""], &["serviceaccounts"]),
        PolicyRule::new(WRITE, &[""], &["pods", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy"]),
        PolicyRule::new(&["create"], &[""], &["pods/eviction", "serviceaccounts/token"]),
        PolicyRule::new(WRITE, &[""], &core),
        PolicyRule::new(WRITE, &["apps"], &workloads),
        PolicyRule::new(WRITE, &["autoscaling"], &["horizontalpodautoscalers"]),
        PolicyRule::new(WRITE, &["batch"], &["cronjobs", "jobs"]),
        PolicyRule::new(WRITE, &["policy"], &["poddisruptionbudgets"]),
        PolicyRule::new(WRITE, &["networking.k8s.io"], &["ingresses", "networkpolicies"]),
        PolicyRule::new(WRITE, &["resource.k8s.io"], &["resourceclaims", "resourceclaimtemplates"]),
        PolicyRule::new(ALL, &["coordination.k8s.io"], &["leases"]),
    ]
}

fn view() -> Vec<PolicyRule> {
    let core = [
        "configmaps",
        "endpoints",
        "persistentvolumeclaims",
        "persistentvolumeclaims/status",
        "pods",
        "replicationcontrollers",
        "replicationcontrollers/scale",
        "serviceaccounts",
        "services",
        "services/status",
        "bindings",
        "events",
        "limitranges",
        "namespaces",
        "namespaces/status",
        "pods/log",
        "pods/status",
        "replicationcontrollers/status",
        "resourcequotas",
        "resourcequotas/status",
    ];
    let workloads = [
        "controllerrevisions",
        "daemonsets",
        "daemonsets/status",
        "deployments",
        "deployments/scale",
        "deployments/status",
        "replicasets",
        "replicasets/scale",
        "replicasets/status",
        "statefulsets",
        "statefulsets/scale",
        "statefulsets/status",
    ];
    vec![
        PolicyRule::new(READ, &[""], &core),
        PolicyRule::new(READ, &["discovery.k8s.io"], &["endpointslices"]),
        PolicyRule::new(READ, &["apps"], &workloads),
        PolicyRule::new(READ, &["autoscaling"], &["horizontalpodautoscalers", "horizontalpodautoscalers/status"]),
        PolicyRule::new(READ, &["batch"], &["cronjobs", "cronjobs/status", "jobs", "jobs/status"]),
        PolicyRule::new(READ, &["policy"], &["poddisruptionbudgets", "poddisruptionbudgets/status"]),
        PolicyRule::new(READ, &["networking.k8s.io"], &["ingresses", "ingresses/status", "networkpolicies"]),
        PolicyRule::new(
            READ,
            &["resource.k8s.io"],
            &["resourceclaims", "resourceclaims/status", "resourceclaimtemplates"],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_components_is_a_rule() {
        let lines = COMPONENTS.lines().filter(|line| line.starts_with(' ')).count();
        let roles = others();
        assert_eq!(roles.iter().map(|(.., rules)| rules.len()).sum::<usize>(), lines);
        for (name, _, rules) in &roles {
            assert!(name.starts_with("system:") && !rules.is_empty(), "{name}");
            for rule in rules {
                assert!(
                    ![&rule.verbs, &rule.api_groups, &rule.resources].into_iter().any(Vec::is_empty),
                    "{name} {rule:?}"
                );
            }
        }
        let mut names: Vec<&str> = plain().into_iter().map(|(name, ..)| name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "every role once");
    }
}
