//! Messages whose JSON form is not an object of their fields, and values that mean "not set".

use apimachinery::duration::Duration;
use apimachinery::meta::Time;
use base64::Engine as _;
use serde_json::{Map, Value, json};

use super::ProtobufError;
use super::messages::{Field, Form, Type};
use super::wire::Reader;

/// Go encodes the zero value of every non-pointer field, and JSON omits it. In these fields, which are pointers or have
/// no `omitempty`, zero is distinct from absence.
const ZERO_COUNTS: &[&str] = &[
    "activeDeadlineSeconds",
    "allocateLoadBalancerNodePorts",
    "allowPrivilegeEscalation",
    "allowVolumeExpansion",
    "attachRequired",
    "automountServiceAccountToken",
    "averageUtilization",
    "backoffLimit",
    "backoffLimitPerIndex",
    "blockOwnerDeletion",
    "completions",
    "controller",
    "defaultMode",
    "deletionGracePeriodSeconds",
    "enableServiceLinks",
    "expirationSeconds",
    "failedJobsHistoryLimit",
    "fsGroup",
    "gracePeriodSeconds",
    "hostUsers",
    "immutable",
    "leaseTransitions",
    "manualSelector",
    "maxFailedIndexes",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minReplicas",
    "minimum",
    "mode",
    "optional",
    "orphanDependents",
    "parallelism",
    "partition",
    "podInfoOnMount",
    "privileged",
    "progressDeadlineSeconds",
    "readOnlyRootFilesystem",
    "ready",
    "replicas",
    "revisionHistoryLimit",
    "runAsGroup",
    "runAsNonRoot",
    "runAsUser",
    "served",
    "serving",
    "setHostnameAsFQDN",
    "shareProcessNamespace",
    "stabilizationWindowSeconds",
    "startingDeadlineSeconds",
    "storage",
    "storageClassName",
    "successfulJobsHistoryLimit",
    "suspend",
    "terminating",
    "terminationGracePeriodSeconds",
    "tolerationSeconds",
    "ttlSecondsAfterFinished",
    "value",
    "x-kubernetes-preserve-unknown-fields",
];

/// Exceptions by message, where the field's name alone is ambiguous: the end of the message's name, and the field.
const ZERO_COUNTS_IN: &[(&str, &str)] = &[
    ("apps.v1.DaemonSetStatus", "collisionCount"),
    ("apps.v1.DeploymentStatus", "collisionCount"),
    ("apps.v1.DeploymentStatus", "terminatingReplicas"),
    ("apps.v1.ReplicaSetStatus", "terminatingReplicas"),
    ("apps.v1.StatefulSetStatus", "collisionCount"),
    ("apiextensions.v1.ValidationRule", "optionalOldSelf"),
    ("core.v1.AzureDiskVolumeSource", "readOnly"),
    ("core.v1.ContainerStateTerminated", "exitCode"),
    ("core.v1.ContainerStatus", "restartCount"),
    ("core.v1.ContainerStatus", "started"),
    ("core.v1.FCVolumeSource", "lun"),
    ("core.v1.LinuxContainerUser", "gid"),
    ("core.v1.LinuxContainerUser", "uid"),
    ("core.v1.NodeFeatures", "supplementalGroupsPolicy"),
    ("core.v1.NodeRuntimeHandlerFeatures", "recursiveReadOnlyMounts"),
    ("core.v1.NodeRuntimeHandlerFeatures", "userNamespaces"),
    ("core.v1.NodeSwapStatus", "capacity"),
    ("core.v1.PodSpec", "priority"),
    ("core.v1.WindowsSecurityContextOptions", "hostProcess"),
    ("discovery.v1.EndpointPort", "port"),
    ("flowcontrol.v1.ExemptPriorityLevelConfiguration", "lendablePercent"),
    ("flowcontrol.v1.ExemptPriorityLevelConfiguration", "nominalConcurrencyShares"),
    ("flowcontrol.v1.LimitedPriorityLevelConfiguration", "borrowingLimitPercent"),
    ("flowcontrol.v1.LimitedPriorityLevelConfiguration", "lendablePercent"),
    ("flowcontrol.v1.LimitedPriorityLevelConfiguration", "nominalConcurrencyShares"),
    ("meta.v1.DeleteOptions", "ignoreStoreReadErrorWithClusterBreakingPotential"),
    ("meta.v1.ListMeta", "remainingItemCount"),
    ("resource.v1.Device", "allNodes"),
    ("resource.v1.Device", "allowMultipleAllocations"),
    ("resource.v1.Device", "bindsToNode"),
    ("resource.v1.DeviceAttribute", "bool"),
    ("resource.v1.DeviceAttribute", "int"),
    ("resource.v1.DeviceRequestAllocationResult", "adminAccess"),
    ("resource.v1.ExactDeviceRequest", "adminAccess"),
    ("resource.v1.ResourcePool", "generation"),
    ("resource.v1.ResourcePool", "resourceSliceCount"),
    ("resource.v1.ResourceSliceSpec", "allNodes"),
    ("resource.v1.ResourceSliceSpec", "perDeviceNodeSelection"),
    ("resource.v1beta1.BasicDevice", "allNodes"),
    ("resource.v1beta1.BasicDevice", "allowMultipleAllocations"),
    ("resource.v1beta1.BasicDevice", "bindsToNode"),
    ("resource.v1beta1.DeviceRequest", "adminAccess"),
    ("resource.v1beta1.ResourceSliceSpec", "perDeviceNodeSelection"),
    ("storage.v1.CSIDriverSpec", "requiresRepublish"),
    ("storage.v1.CSIDriverSpec", "seLinuxMount"),
    ("storage.v1.CSIDriverSpec", "serviceAccountTokenInSecrets"),
    ("storage.v1.CSIDriverSpec", "storageCapacity"),
    ("storage.v1.VolumeError", "errorCode"),
];

pub(super) fn zero_counts(message: &str, name: &str) -> bool {
    ZERO_COUNTS.binary_search(&name).is_ok()
        || ZERO_COUNTS_IN.iter().any(|(place, field)| *field == name && message.ends_with(place))
}

/// Whether a field of a message counts as absent.
pub(super) fn is_unset(field: &Field, value: &Value) -> bool {
    match value {
        Value::Null => true,
        // A message that is present is never a default: zero pods, or a default of false.
        _ if matches!(field.type_, Type::Message(_)) => false,
        Value::String(text) => text.is_empty() && field.name != "storageClassName",
        Value::Bool(false) => !field.zero_counts,
        Value::Number(number) => number.as_i64() == Some(0) && !field.zero_counts,
        _ => false,
    }
}

/// A number as Go prints it and as it is stored: whole numbers have no fraction.
pub(super) fn number(double: f64) -> Value {
    // Up to 2^53 every whole number is exactly one integer.
    if double.fract() == 0.0 && double.abs() <= 9_007_199_254_740_992.0 {
        return (double as i64).into();
    }
    double.into()
}

/// The JSON of a message whose first field is embedded JSON.
pub(super) fn embedded(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let mut reader = Reader::new(bytes);
    while let Some((number, value)) = reader.field()? {
        if number == 1 {
            let raw = value.bytes()?;
            if raw.is_empty() {
                return Ok(Value::Null);
            }
            return serde_json::from_slice(raw).map_err(|error| ProtobufError::Json(error.to_string()));
        }
    }
    Ok(Value::Null)
}

/// The JSON form of a decoded message.
pub(super) fn json_form(form: Form, bytes: &[u8], object: Map<String, Value>) -> Result<Value, ProtobufError> {
    Ok(match form {
        Form::Object | Form::Embedded => Value::Object(object),
        Form::Time => time(bytes, false)?,
        Form::MicroTime => time(bytes, true)?,
        Form::Duration => Duration::from_nanos(integer(bytes, 1)?).to_string().into(),
        Form::Quantity => object.get("string").cloned().unwrap_or_else(|| "0".into()),
        Form::IntOrString => match integer(bytes, 1)? {
            0 => integer(bytes, 2)?.into(),
            _ => object.get("strVal").cloned().unwrap_or_else(|| "".into()),
        },
        Form::Items => object.get("items").cloned().unwrap_or_else(|| json!([])),
        Form::SchemaOrSchemas => either(&object, "jSONSchemas"),
        Form::SchemaOrNames => either(&object, "property"),
        Form::SchemaOrBool => match object.get("schema") {
            Some(schema) => schema.clone(),
            None => (integer(bytes, 1)? != 0).into(),
        },
    })
}

fn either(object: &Map<String, Value>, list: &str) -> Value {
    object.get("schema").or_else(|| object.get(list)).cloned().unwrap_or(Value::Null)
}

fn integer(bytes: &[u8], number: u32) -> Result<i64, ProtobufError> {
    let mut reader = Reader::new(bytes);
    let mut found = 0;
    while let Some((field, value)) = reader.field()? {
        if field == number {
            found = value.integer()?;
        }
    }
    Ok(found)
}

/// The zero time is an empty message.
fn time(bytes: &[u8], micro: bool) -> Result<Value, ProtobufError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let nanos = i32::try_from(integer(bytes, 2)?).unwrap_or(0);
    let at = jiff::Timestamp::new(integer(bytes, 1)?, nanos)
        .map_err(|_| ProtobufError::Malformed("a time is out of range"))?;
    Ok(if micro { at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string().into() } else { Time::new(at).to_string().into() })
}

pub(super) fn base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[cfg(test)]
pub(super) fn sorted() -> bool {
    ZERO_COUNTS.is_sorted()
}
