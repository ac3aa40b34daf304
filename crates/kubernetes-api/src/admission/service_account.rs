//! Service accounts of pods: selects the account, and mounts its credentials into the containers.

use serde_json::{Value, json};

use super::{list, made, text};

const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// One hour and seven seconds: upstream recognizes injected tokens by this lifetime.
const TOKEN_SECONDS: i64 = 3607;
/// The annotation of static pods, which have no service account credentials.
const MIRROR: &str = "kubernetes.io/config.mirror";

pub const DEFAULT: &str = "default";

/// Whether the plugin applies to this pod.
///
/// # Errors
/// Why a mirror pod is refused.
pub fn concerns(pod: &Value) -> Result<bool, String> {
    if pod["metadata"]["annotations"][MIRROR].is_null() {
        return Ok(true);
    }
    if !text(&pod["spec"], "serviceAccountName").is_empty() {
        return Err("a mirror pod may not reference service accounts".to_owned());
    }
    Ok(false)
}

/// Sets the service account of a pod that names none, and returns its name.
pub fn choose(pod: &mut Value) -> String {
    let specified = text(&pod["spec"], "serviceAccountName").to_owned();
    if !specified.is_empty() {
        return specified;
    }
    if let Some(spec) = made(pod, "spec") {
        spec.insert("serviceAccountName".into(), DEFAULT.into());
        spec.insert("serviceAccount".into(), DEFAULT.into());
    }
    DEFAULT.to_owned()
}

/// Completes a pod of `account`: adds the volume with the token, and the image pull secrets. `suffix` makes the name of
/// the volume unique.
pub fn complete(pod: &mut Value, account: &Value, suffix: &str) {
    let automount = [&pod["spec"], account].into_iter().find_map(|at| at["automountServiceAccountToken"].as_bool());
    if automount.unwrap_or(true) {
        mount_token(pod, suffix);
    }
    let secrets = &account["imagePullSecrets"];
    if list(&pod["spec"]["imagePullSecrets"]).next().is_none()
        && list(secrets).next().is_some()
        && let Some(spec) = made(pod, "spec")
    {
        spec.insert("imagePullSecrets".into(), secrets.clone());
    }
}

fn mount_token(pod: &mut Value, suffix: &str) {
    let Some(spec) = made(pod, "spec") else { return };
    let volumes = spec.get("volumes").and_then(Value::as_array).cloned().unwrap_or_default();
    let own =
        volumes.iter().filter_map(|volume| volume["name"].as_str()).find(|name| name.starts_with("kube-api-access-"));
    let name = own.map_or_else(|| format!("kube-api-access-{suffix}"), str::to_owned);
    let present = own.is_some();
    let mut used = false;
    for field in ["initContainers", "containers"] {
        for container in spec.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten() {
            let Some(container) = container.as_object_mut() else { continue };
            let mounts = container.entry("volumeMounts").or_insert_with(|| json!([]));
            let Some(mounts) = mounts.as_array_mut() else { continue };
            if !mounts.iter().any(|mount| mount["mountPath"] == MOUNT_PATH) {
                mounts.push(json!({"name": name, "readOnly": true, "mountPath": MOUNT_PATH}));
                used = true;
            }
        }
    }
    if used && !present {
        let mut volumes = volumes;
        volumes.push(volume(&name));
        spec.insert("volumes".into(), volumes.into());
    }
}

fn volume(name: &str) -> Value {
    json!({
        "name": name,
        "projected": {
            "defaultMode": 420,
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [
                    {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
                ]}},
            ],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_get_their_token() {
        let pod =
            || json!({"metadata": {}, "spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "b"}]}});
        let mut plain = pod();
        assert_eq!(choose(&mut plain), DEFAULT);
        complete(&mut plain, &json!({"imagePullSecrets": [{"name": "s"}]}), "x7k2p");
        assert_eq!(plain["spec"]["volumes"], json!([volume("kube-api-access-x7k2p")]));
        for list in ["containers", "initContainers"] {
            let mount = json!([{"name": "kube-api-access-x7k2p", "readOnly": true, "mountPath": MOUNT_PATH}]);
            assert_eq!(plain["spec"][list][0]["volumeMounts"], mount);
        }
        assert_eq!(plain["spec"]["imagePullSecrets"], json!([{"name": "s"}]));
        let mut again = plain.clone();
        complete(&mut again, &json!({}), "other");
        assert_eq!(again, plain, "what is there stays");
    }

    #[test]
    fn pods_may_opt_out_of_the_token() {
        let mut pod = json!({"spec": {"automountServiceAccountToken": false, "containers": [{"name": "a"}]}});
        complete(&mut pod, &json!({"automountServiceAccountToken": true}), "x");
        assert!(pod["spec"].get("volumes").is_none());
        let mut own =
            json!({"spec": {"containers": [{"name": "a", "volumeMounts": [{"name": "v", "mountPath": MOUNT_PATH}]}]}});
        complete(&mut own, &json!({}), "x");
        assert!(own["spec"].get("volumes").is_none());
        assert_eq!(concerns(&json!({"metadata": {"annotations": {MIRROR: "h"}}})), Ok(false));
        assert!(
            concerns(&json!({"metadata": {"annotations": {MIRROR: "h"}}, "spec": {"serviceAccountName": "s"}}))
                .is_err()
        );
    }
}
