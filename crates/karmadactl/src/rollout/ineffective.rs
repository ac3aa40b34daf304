//! Whether a member would keep a restart's annotation: applies overrides and the interpreter's retention to the changed
//! template. Pure.

use std::sync::Arc;

use interpreter::Interpreter;
use karmada_api::cluster::v1alpha1::Cluster;
use karmada_api::scope::{Binding, Override};
use propagation::overrides;
use serde_json::Value;

/// The annotation that a restart sets in the template.
pub const MARK: &str = "/spec/template/metadata/annotations/kubectl.kubernetes.io~1restartedAt";

/// One line for each cluster in which the change has no effect.
pub fn warnings(
    before: &Value,
    after: &Value,
    binding: Option<&Binding>,
    clusters: &[Arc<Cluster>],
    policies: &[Override],
    interpreter: &Interpreter,
) -> Vec<String> {
    let targets = binding.map_or(&[][..], |binding| binding.spec.clusters.as_slice());
    let known = |name: &str| clusters.iter().find(|it| it.metadata.name == name);
    let warning = |cluster: &Cluster| warning(before, after, cluster, policies, interpreter);
    targets.iter().filter_map(|target| warning(known(&target.name)?)).collect()
}

fn warning(
    before: &Value,
    after: &Value,
    cluster: &Cluster,
    policies: &[Override],
    interpreter: &Interpreter,
) -> Option<String> {
    let name = &cluster.metadata.name;
    let mark = after.pointer(MARK)?;
    let (mut observed, mut desired) = (before.clone(), after.clone());
    // An override that fails has its own condition on the binding; it does not undo this change in particular.
    overrides::apply(policies, cluster, &mut observed).ok()?;
    let applied = overrides::apply(policies, cluster, &mut desired).ok()?;
    if desired.pointer(MARK) != Some(mark) {
        let names: Vec<String> = applied
            .iter()
            .flat_map(|(scope, rules)| {
                rules.iter().map(|rule| format!("{} {}", Override::kind(*scope), rule.policy_name))
            })
            .collect();
        return Some(format!(
            "the restart has no effect in cluster {name}: {} changes the annotations of the pod template",
            names.join(", ")
        ));
    }
    // Without retention for the kind, no member values are kept.
    interpreter.retain(&mut desired, &observed).ok()?;
    (desired.pointer(MARK) != Some(mark)).then(|| {
        let kind = after["kind"].as_str().unwrap_or_default();
        format!(
            "the restart has no effect in cluster {name}: the interpreter's retention for {kind} keeps the member's pod template"
        )
    })
}

#[cfg(test)]
mod tests {
    use interpreter::scripted::Scripts;
    use karmada_api::scope::Scope;
    use serde_json::json;

    use super::*;

    fn check(overriders: Value, retention: &str, expected: &[&str]) {
        let cluster = |name: &str| {
            let value = json!({"metadata": {"name": name}, "spec": {}});
            Arc::new(serde_json::from_value::<Cluster>(value).expect("a cluster"))
        };
        let before = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}});
        let mut after = before.clone();
        after["spec"]["template"]["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"] = json!("now");
        let binding = json!({"metadata": {"name": "b", "namespace": "shop"}, "spec": {"clusters": [{"name": "m1"}, {"name": "m2"}]}});
        let binding = Binding::from_value(Scope::Namespaced, &binding).expect("a binding");
        let rule = json!({"targetCluster": {"clusterNames": ["m2"]}, "overriders": overriders});
        let policy = json!({"metadata": {"name": "o", "namespace": "shop"}, "spec": {"overrideRules": [rule]}});
        let policy = Override::from_value(Scope::Namespaced, &policy).expect("an override policy");
        let mut scripts = Scripts::none(crate::interpret::engine(&world::World::system()));
        if !retention.is_empty() {
            scripts.add_all("apps/v1", "Deployment", [interpreter::Operation::Retain], retention);
        }
        let interpreter = Interpreter::with_layers(vec![Arc::new(scripts)]);
        let clusters = [cluster("m1"), cluster("m2")];
        let found = warnings(&before, &after, Some(&binding), &clusters, &[policy], &interpreter);
        assert_eq!(found, expected);
    }

    #[test]
    fn restarts_without_effect_in_members() {
        check(json!({"labelsOverrider": [{"operator": "add", "value": {"x": "y"}}]}), "", &[]);
        let replaced =
            json!({"plaintext": [{"path": "/spec/template/metadata/annotations", "operator": "replace", "value": {}}]});
        check(
            replaced,
            "",
            &["the restart has no effect in cluster m2: OverridePolicy o changes the annotations of the pod template"],
        );
        let keeps =
            "function Retain(desired, observed) desired.spec.template = observed.spec.template return desired end";
        let kept = "the interpreter's retention for Deployment keeps the member's pod template";
        let line = |name: &str| format!("the restart has no effect in cluster {name}: {kept}");
        check(json!({}), keeps, &[&line("m1"), &line("m2")]);
    }
}
