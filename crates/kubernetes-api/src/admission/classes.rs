//! Default classes of claims and ingresses, and the finalizers that protect storage in use.

use serde_json::{Value, json};

use super::{made, text};

/// The annotations of a default class.
pub(crate) const STORAGE_DEFAULT: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
pub(crate) const INGRESS_DEFAULT: [&str; 1] = ["ingressclass.kubernetes.io/is-default-class"];
/// The annotation for an ingress's class, before the field was added.
const INGRESS_ANNOTATION: &str = "kubernetes.io/ingress.class";

/// Of several default classes, the newest is used, and of equally old ones the first by name.
fn default_class<'c>(classes: impl Iterator<Item = &'c Value>, annotations: &[&str]) -> Option<&'c str> {
    let marked = classes
        .filter(|class| annotations.iter().any(|annotation| class["metadata"]["annotations"][annotation] == "true"));
    let newest = marked.max_by(|a, b| {
        let key = |class: &'c Value| (text(&class["metadata"], "creationTimestamp"), text(&class["metadata"], "name"));
        let ((a, a_name), (b, b_name)) = (key(a), key(b));
        a.cmp(b).then(b_name.cmp(a_name))
    })?;
    newest["metadata"]["name"].as_str()
}

/// Sets the default storage class on a new claim. An empty name requests no class.
pub fn set_storage_class<'c>(claim: &mut Value, classes: impl Iterator<Item = &'c Value>) {
    if !claim["spec"]["storageClassName"].is_null()
        || claim["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"].is_string()
    {
        return;
    }
    if let (Some(class), Some(spec)) = (default_class(classes, &STORAGE_DEFAULT), made(claim, "spec")) {
        spec.insert("storageClassName".into(), class.into());
    }
}

/// Sets the default ingress class on a new ingress.
pub fn set_ingress_class<'c>(ingress: &mut Value, classes: impl Iterator<Item = &'c Value>) {
    if !ingress["spec"]["ingressClassName"].is_null()
        || ingress["metadata"]["annotations"][INGRESS_ANNOTATION].is_string()
    {
        return;
    }
    if let (Some(class), Some(spec)) = (default_class(classes, &INGRESS_DEFAULT), made(ingress, "spec")) {
        spec.insert("ingressClassName".into(), class.into());
    }
}

/// The finalizer that protects a new object of this kind while it is in use.
pub fn in_use_finalizer(group: &str, plural: &str) -> Option<&'static str> {
    Some(match (group, plural) {
        ("", "persistentvolumeclaims") => "kubernetes.io/pvc-protection",
        ("", "persistentvolumes") => "kubernetes.io/pv-protection",
        ("storage.k8s.io", "volumeattributesclasses") => "kubernetes.io/vac-protection",
        _ => return None,
    })
}

/// Adds a finalizer unless the object already has it.
pub fn add_finalizer(object: &mut Value, finalizer: &str) {
    let Some(metadata) = made(object, "metadata") else { return };
    let Some(finalizers) = metadata.entry("finalizers").or_insert_with(|| json!([])).as_array_mut() else { return };
    if !finalizers.iter().any(|known| known == finalizer) {
        finalizers.push(finalizer.into());
    }
}

/// Why a claim may not grow: its class does not allow volume expansion.
pub fn resize_refusal<'c>(
    old: &Value,
    new: &Value,
    mut classes: impl Iterator<Item = &'c Value>,
) -> Option<&'static str> {
    let size = |claim: &Value| {
        let text = claim["spec"]["resources"]["requests"]["storage"].as_str()?;
        text.parse::<apimachinery::quantity::Quantity>().ok()
    };
    if size(new) <= size(old) || old["status"]["phase"] != "Bound" {
        return None;
    }
    let name = text(&new["spec"], "storageClassName");
    let expands = classes.any(|class| class["metadata"]["name"] == name && class["allowVolumeExpansion"] == true);
    (!expands).then_some(
        "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str, created: &str, annotation: &str) -> Value {
        json!({"metadata": {"name": name, "creationTimestamp": created, "annotations": {annotation: "true"}}})
    }

    #[test]
    fn the_newest_default_is_taken() {
        let storage = [
            class("old", "2026-01-01T00:00:00Z", STORAGE_DEFAULT[0]),
            class("b", "2026-02-01T00:00:00Z", STORAGE_DEFAULT[0]),
            class("a", "2026-02-01T00:00:00Z", STORAGE_DEFAULT[1]),
            class("other", "2026-03-01T00:00:00Z", "x"),
        ];
        for (claim, expected) in [
            (json!({"spec": {}}), json!("a")),
            (json!({"spec": {"storageClassName": ""}}), json!("")),
            (json!({"spec": {"storageClassName": "mine"}}), json!("mine")),
        ] {
            let mut set = claim.clone();
            set_storage_class(&mut set, storage.iter());
            assert_eq!(set["spec"]["storageClassName"], expected, "{claim}");
        }
        let mut none = json!({"spec": {}});
        set_storage_class(&mut none, [].iter());
        assert_eq!(none, json!({"spec": {}}));
        let ingress = [class("nginx", "2026-01-01T00:00:00Z", INGRESS_DEFAULT[0])];
        for (annotation, expected) in [("x", json!("nginx")), (INGRESS_ANNOTATION, Value::Null)] {
            let mut set = json!({"metadata": {"annotations": {annotation: "y"}}, "spec": {}});
            set_ingress_class(&mut set, ingress.iter());
            assert_eq!(set["spec"]["ingressClassName"], expected, "{annotation}");
        }
    }

    #[test]
    fn claims_grow_only_where_the_class_lets_them() {
        let claim = |size: &str| json!({"spec": {"storageClassName": "s", "resources": {"requests": {"storage": size}}}, "status": {"phase": "Bound"}});
        let fixed = json!({"metadata": {"name": "s"}});
        let elastic = json!({"metadata": {"name": "s"}, "allowVolumeExpansion": true});
        assert!(resize_refusal(&claim("1Gi"), &claim("2Gi"), [&fixed].into_iter()).is_some());
        assert!(resize_refusal(&claim("1Gi"), &claim("1024Mi"), [&fixed].into_iter()).is_none());
        assert!(resize_refusal(&claim("1Gi"), &claim("2Gi"), [&elastic].into_iter()).is_none());
    }

    #[test]
    fn finalizers_are_added_once() {
        let mut claim = json!({"metadata": {}});
        for _ in 0..2 {
            add_finalizer(&mut claim, "kubernetes.io/pvc-protection");
        }
        assert_eq!(claim["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    }
}
