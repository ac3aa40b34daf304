//! Built-in kinds that an earlier kube-apiserver stored in a version that is not stored here.

use std::collections::HashMap;
use std::sync::OnceLock;

use apimachinery::resource::Resource;
use serde_json::{Map, Value};

/// How a value of an older version becomes one of the stored version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Older {
    /// The fields are those of the stored version.
    Same(&'static str),
    /// As [`Self::Same`], with shares of a priority level under another name.
    Shares(&'static str),
    /// The version is served here, and has a conversion.
    Served,
    /// `v1beta1` of device claims and slices: what later versions have in members of their own is flat.
    Devices(&'static str),
}

const FLOW: &str = "flowcontrol.apiserver.k8s.io/v1";
const ADMISSION: &str = "admissionregistration.k8s.io/v1";
const NETWORKING: &str = "networking.k8s.io/v1";
const DEVICES: &str = "resource.k8s.io/v1";

/// `None` for versions that are stored as they are, and for unknown ones.
pub(crate) fn older(api_version: &str, kind: &str) -> Option<Older> {
    Some(match (api_version, kind) {
        ("flowcontrol.apiserver.k8s.io/v1beta1" | "flowcontrol.apiserver.k8s.io/v1beta2", _) => Older::Shares(FLOW),
        ("flowcontrol.apiserver.k8s.io/v1beta3", _) => Older::Same(FLOW),
        (
            "admissionregistration.k8s.io/v1alpha1" | "admissionregistration.k8s.io/v1beta1",
            "ValidatingAdmissionPolicy"
            | "ValidatingAdmissionPolicyBinding"
            | "MutatingAdmissionPolicy"
            | "MutatingAdmissionPolicyBinding",
        ) => Older::Same(ADMISSION),
        ("networking.k8s.io/v1alpha1" | "networking.k8s.io/v1beta1", "IPAddress" | "ServiceCIDR") => {
            Older::Same(NETWORKING)
        }
        ("storage.k8s.io/v1beta1", "CSIStorageCapacity" | "VolumeAttributesClass")
        | ("storage.k8s.io/v1alpha1", "VolumeAttributesClass") => Older::Same("storage.k8s.io/v1"),
        ("resource.k8s.io/v1beta2", "DeviceClass" | "ResourceClaim" | "ResourceClaimTemplate" | "ResourceSlice")
        | ("resource.k8s.io/v1beta1", "DeviceClass") => Older::Same(DEVICES),
        ("resource.k8s.io/v1beta1", "ResourceClaim" | "ResourceClaimTemplate" | "ResourceSlice") => {
            Older::Devices(DEVICES)
        }
        ("autoscaling/v1", "HorizontalPodAutoscaler") | ("events.k8s.io/v1", "Event") => Older::Served,
        _ => return None,
    })
}

/// Converts a document to the stored version.
///
/// # Errors
/// The conversion's reason.
pub(crate) fn convert(older: Older, object: &mut Value) -> Result<(), String> {
    match older {
        Older::Same(stored) => object["apiVersion"] = stored.into(),
        Older::Shares(stored) => {
            object["apiVersion"] = stored.into();
            if let Some(limited) = object.pointer_mut("/spec/limited").and_then(Value::as_object_mut)
                && let Some(shares) = limited.remove("assuredConcurrencyShares")
            {
                limited.insert("nominalConcurrencyShares".into(), shares);
            }
        }
        Older::Devices(stored) => {
            object["apiVersion"] = stored.into();
            devices(object);
        }
        Older::Served => {
            let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
            let (api_version, kind) = (text("apiVersion"), text("kind"));
            let resource =
                built_in(&api_version, &kind).ok_or_else(|| format!("{api_version} {kind} is not served"))?;
            resource.strategy.to_stored(object).map_err(|status| status.message)?;
        }
    }
    Ok(())
}

/// The fields of a request for devices that are in its member `exactly` since `v1beta2`.
const OF_EXACT_REQUESTS: &[&str] =
    &["deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity"];

fn devices(object: &mut Value) {
    let requests = match object["kind"].as_str() {
        Some("ResourceClaimTemplate") => "/spec/spec/devices/requests",
        _ => "/spec/devices/requests",
    };
    for request in items(object, requests) {
        let exactly: Map<String, Value> =
            OF_EXACT_REQUESTS.iter().filter_map(|field| Some(((*field).to_owned(), request.remove(*field)?))).collect();
        if !exactly.is_empty() {
            request.insert("exactly".into(), exactly.into());
        }
    }
    for device in items(object, "/spec/devices") {
        if let Some(Value::Object(basic)) = device.remove("basic") {
            device.extend(basic);
        }
    }
}

/// The objects of a list; none if it is absent, or something else.
fn items<'o>(object: &'o mut Value, pointer: &str) -> impl Iterator<Item = &'o mut Map<String, Value>> {
    object.pointer_mut(pointer).and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

/// The built-in resource of a kind.
pub(crate) fn built_in(api_version: &str, kind: &str) -> Option<&'static Resource> {
    static RESOURCES: OnceLock<HashMap<(String, String), Resource>> = OnceLock::new();
    let all = RESOURCES.get_or_init(|| {
        let key = |it: &Resource| (it.info.resource.gvk().api_version(), it.info.resource.kind.clone());
        // Kinds that are only reviewed are not stored.
        let stored =
            kubernetes_api::resources().into_iter().filter(|it| it.info.verbs.iter().any(|verb| verb == "get"));
        stored.map(|it| (key(&it), it)).collect()
    });
    all.get(&(api_version.to_owned(), kind.to_owned()))
}
