//! Sources of volumes, in pods and in PersistentVolumes; most of them predate CSI drivers.

use std::net::IpAddr;

use apimachinery::field::{Error, ErrorList};
use apimachinery::names;
use apimachinery::quantity::Quantity;
use serde_json::Value;

use super::at::At;
use super::checks::supported;
use super::table::Function;
use super::{Object, forbidden, internal, invalid, list, object, required, text};

pub(super) const FUNCTIONS: &[(&str, Function)] = &[
    ("azure_disk", azure_disk),
    ("csi_inline", csi_inline),
    ("csi_volume", csi_volume),
    ("fibre_channel", fibre_channel),
    ("flex_options", flex_options),
    ("flocker", flocker),
    ("given_namespace", specified_namespace),
    ("iscsi", iscsi),
    ("local_secret", local_secret),
    ("partition", partition),
    ("quobyte", quobyte),
    ("secret_and_namespace", secret_and_namespace),
    ("volume_spec", volume_spec),
];

/// The order in which upstream checks the sources of a volume: of several, the first is the valid one.
const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

fn volume_spec(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    super::cluster::access_modes(list(spec, "accessModes"), at, errors);
    if at.is_below("inlineVolumeSpec") {
        inline(spec, at, errors);
    } else {
        capacity(spec, at, errors);
    }
    let affinity = object(spec, "nodeAffinity");
    if affinity.is_some_and(|affinity| !affinity.contains_key("required")) {
        let at = at.child("nodeAffinity");
        required(errors, &at.child("required"), "must specify required node constraints");
    }
    let mut sources = SOURCES.into_iter().filter(|source| spec.contains_key(*source));
    match sources.next() {
        None => required(errors, at, "must specify a volume type"),
        Some("local") if affinity.is_none() => {
            required(errors, &at.child("nodeAffinity"), "Local volume requires node affinity");
        }
        Some(_) => {}
    }
    for source in sources.filter(|source| *source != "flexVolume") {
        let shown = if source == "cephfs" { "cephFS" } else { source };
        forbidden(errors, &at.child(shown), "may not specify more than 1 volume type");
    }
    let recycles = text(spec, "persistentVolumeReclaimPolicy") == "Recycle";
    if recycles && object(spec, "hostPath").is_some_and(|path| is_root(text(path, "path"))) {
        let detail = "may not be 'recycle' for a hostPath mount of '/'";
        forbidden(errors, &at.child("persistentVolumeReclaimPolicy"), detail);
    }
    if let Some(class) = spec.get("volumeAttributesClassName") {
        if class == "" {
            required(errors, &at.child("volumeAttributesClassName"), "an empty string is disallowed");
        }
        if !spec.contains_key("csi") {
            required(errors, &at.child("csi"), "has to be specified when using volumeAttributesClassName");
        }
    }
}

/// An inline volume of an attachment: only CSI is permitted.
fn inline(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    for field in ["claimRef", "capacity", "nodeAffinity", "storageClassName"] {
        if spec.contains_key(field) {
            forbidden(errors, &at.child(field), "may not be specified in the context of inline volumes");
        }
    }
    if !spec.contains_key("csi") {
        required(errors, &at.child("csi"), "has to be specified in the context of inline volumes");
    }
    if !matches!(text(spec, "persistentVolumeReclaimPolicy"), "" | "Retain") {
        let detail = "may only be Retain in the context of inline volumes";
        forbidden(errors, &at.child("persistentVolumeReclaimPolicy"), detail);
    }
    if !matches!(text(spec, "volumeMode"), "" | "Filesystem") {
        let detail = "may not specify volumeMode other than Filesystem in the context of inline volumes";
        forbidden(errors, &at.child("volumeMode"), detail);
    }
}

fn is_root(path: &str) -> bool {
    path.starts_with('/') && path.split('/').all(|part| matches!(part, "" | "." | ".."))
}

fn capacity(spec: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let at = at.child("capacity");
    let capacity = object(spec, "capacity");
    if capacity.is_none_or(Object::is_empty) {
        required(errors, &at, "");
    }
    if !capacity.is_some_and(|capacity| capacity.len() == 1 && capacity.contains_key("storage")) {
        let value = capacity.map_or(Value::Null, |capacity| Value::Object(capacity.clone()));
        errors.push(Error::not_supported(&at.path(), value, &["storage"]));
    }
    for (name, value) in capacity.into_iter().flatten() {
        let amount = super::resources::amount(value);
        if amount.is_some_and(Quantity::is_negative) {
            invalid(errors, &at.key(name), value, "must be greater than or equal to 0");
        }
        if amount.is_some_and(|amount| amount.is_zero() || amount.is_negative()) {
            invalid(errors, &at.key(name), value, "must be greater than zero");
        }
    }
}

/// The source of a volume is immutable, except for a secret that was absent before.
pub(super) fn update(old: &Value, new: &Value, errors: &mut ErrorList) {
    const SECRET: &str = "controllerExpandSecretRef";
    let root = At::root();
    let at = root.child("spec");
    let (was, is) = (&old["spec"], &new["spec"]);
    let source = |spec: &Value| -> Vec<Value> { SOURCES.iter().map(|source| spec[*source].clone()).collect() };
    let mut now = is.clone();
    if was["csi"].get(SECRET).is_none()
        && let Some(csi) = now.get_mut("csi").and_then(Value::as_object_mut)
    {
        csi.remove(SECRET);
    }
    if source(was) != source(&now) {
        let detail = "spec.persistentvolumesource is immutable after creation";
        forbidden(errors, &at.child("persistentvolumesource"), detail);
    }
    // Upstream omits `spec` from the next two paths.
    if was["volumeMode"] != is["volumeMode"] {
        invalid(errors, &root.child("volumeMode"), &is["volumeMode"], "field is immutable");
    }
    let affinity = &was["nodeAffinity"];
    if !affinity.is_null() && renewed(affinity) != renewed(&is["nodeAffinity"]) {
        let detail = "field is immutable, except for updating from beta label to GA";
        let shown = internal::shown("VolumeNodeAffinity", &is["nodeAffinity"]);
        let at = root.child("nodeAffinity");
        errors.push(Error::invalid(&at.path(), Value::Null, detail).shown_as(shown));
    }
    if !was["volumeAttributesClassName"].is_null() && is["volumeAttributesClassName"].is_null() {
        let detail = "update from non-nil value to nil is forbidden";
        forbidden(errors, &at.child("volumeAttributesClassName"), detail);
    }
}

/// An affinity with deprecated node labels replaced by the current ones.
fn renewed(affinity: &Value) -> Value {
    const NAMES: [(&str, &str); 5] = [
        ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
        ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
        ("beta.kubernetes.io/os", "kubernetes.io/os"),
        ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
        ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
    ];
    let mut affinity = affinity.clone();
    let terms = affinity.pointer_mut("/required/nodeSelectorTerms").and_then(Value::as_array_mut);
    for term in terms.into_iter().flatten() {
        for expression in term.get_mut("matchExpressions").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some((_, new)) = NAMES.iter().find(|(old, _)| expression["key"] == *old) {
                expression["key"] = (*new).into();
            }
        }
    }
    affinity
}

fn partition(disk: &Object, at: &At<'_>, errors: &mut ErrorList) {
    if let Some(number) =
        disk.get("partition").filter(|number| number.as_i64().is_some_and(|n| !(0..=255).contains(&n)))
    {
        invalid(errors, &at.child("partition"), number, "must be between 1 and 255, inclusive");
    }
}

const FORMATS: [&str; 3] = ["iqn", "eui", "naa"];

/// Initiators and targets have names in one of three formats.
fn is_storage_name(name: &str) -> bool {
    let word = |text: &str, length: usize| text.len() == length && text.bytes().all(|b| b.is_ascii_alphanumeric());
    match name.get(..3) {
        Some("eui") => name.len() > 4 && word(&name[4..], 16),
        Some("naa") => name.len() > 4 && word(&name[4..], 32),
        _ => name.match_indices("iqn.").any(|(at, _)| is_qualified_storage_name(&name[at + 4..])),
    }
}

/// The part after `iqn.`: a month, a reversed domain name, and after a colon any text.
fn is_qualified_storage_name(text: &str) -> bool {
    let digits = |text: Option<&str>| text.is_some_and(|text| text.bytes().all(|b| b.is_ascii_digit()));
    let month =
        digits(text.get(..4)) && text.get(4..5) == Some("-") && digits(text.get(5..7)) && text.get(7..8) == Some(".");
    let Some((domain, rest)) = text.get(8..).filter(|_| month).and_then(|rest| rest.split_once(':')) else {
        return false;
    };
    let in_domain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    let in_rest = |c: char| !matches!(c, ',' | '^' | ';' | '*' | '&' | '$' | '|') && !c.is_ascii_whitespace();
    !domain.is_empty() && domain.chars().all(in_domain) && !rest.is_empty() && rest.chars().all(in_rest)
}

fn iscsi(source: &Object, at: &At<'_>, errors: &mut ErrorList) {
    // Cluster-scoped volumes name the namespace of their secret; upstream's messages for them are shorter.
    let names_any = |name: &str| FORMATS.iter().any(|format| name.starts_with(format));
    for (field, shown) in [("iqn", "iqn"), ("initiatorName", "initiatorname")] {
        let name = text(source, field);
        let at = at.child(shown);
        if field == "initiatorName" && !source.contains_key(field) || field == "iqn" && name.is_empty() {
            continue;
        }
        if !names_any(name) {
            invalid(errors, &at, &name.into(), "must be valid format starting with iqn, eui, or naa");
        } else if !is_storage_name(name) {
            invalid(errors, &at, &name.into(), "must be valid format");
        }
    }
    let chap =
        ["chapAuthDiscovery", "chapAuthSession"].iter().any(|field| source.get(*field).is_some_and(|v| v == true));
    if chap && !source.contains_key("secretRef") {
        required(errors, &at.child("secretRef"), "");
    }
}

fn fibre_channel(source: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let (names, ids) = (list(source, "targetWWNs"), list(source, "wwids"));
    let at_names = at.child("targetWWNs");
    if names.is_empty() && ids.is_empty() {
        required(errors, &at_names, "must specify either targetWWNs or wwids, but not both");
    }
    if !names.is_empty() && !ids.is_empty() {
        let detail = "targetWWNs and wwids can not be specified simultaneously";
        invalid(errors, &at_names, &names.to_vec().into(), detail);
    }
    if names.is_empty() {
        return;
    }
    let at = at.child("lun");
    match source.get("lun") {
        None => required(errors, &at, "lun is required if targetWWNs is specified"),
        Some(lun) if !lun.as_i64().is_some_and(|lun| (0..=255).contains(&lun)) => {
            invalid(errors, &at, lun, "must be between 0 and 255, inclusive");
        }
        Some(_) => {}
    }
}

fn flocker(source: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let (name, id) = (text(source, "datasetName"), text(source, "datasetUUID"));
    match (name.is_empty(), id.is_empty()) {
        (true, true) => required(errors, at, "one of datasetName and datasetUUID is required"),
        (false, false) => {
            let detail = "datasetName and datasetUUID can not be specified simultaneously";
            invalid(errors, at, &"resource".into(), detail);
        }
        _ => {}
    }
    if name.contains('/') {
        invalid(errors, &at.child("datasetName"), &name.into(), "must not contain '/'");
    }
}

fn quobyte(source: &Object, at: &At<'_>, errors: &mut ErrorList) {
    const DETAIL: &str = "must be a host:port pair or multiple pairs separated by commas";
    let registry = text(source, "registry");
    if registry.is_empty() {
        required(errors, &at.child("registry"), DETAIL);
    } else if text(source, "tenant").len() >= 65 {
        required(errors, &at.child("tenant"), "must be a UUID and may not exceed a length of 64 characters");
    } else {
        for _ in registry.split(',').filter(|pair| !is_host_and_port(pair)) {
            invalid(errors, &at.child("registry"), &registry.into(), DETAIL);
        }
    }
}

fn is_host_and_port(text: &str) -> bool {
    match text.strip_prefix('[').map(|rest| rest.split_once("]:")) {
        Some(Some((host, port))) => host.parse::<IpAddr>().is_ok() && !port.contains(':'),
        Some(None) => false,
        None => text.matches(':').count() == 1,
    }
}

fn flex_options(source: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let at = at.child("options");
    for key in object(source, "options").into_iter().flat_map(Object::keys) {
        let domain = format!(".{}", key.split('/').next().unwrap_or_default().to_lowercase());
        let domain = if key.contains('/') { domain } else { format!(".{}", key.to_lowercase()) };
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            let detail = "kubernetes.io and k8s.io namespaces are reserved";
            invalid(errors, &at.key(key), &key.as_str().into(), detail);
        }
    }
}

fn azure_disk(source: &Object, at: &At<'_>, errors: &mut ErrorList) {
    const MANAGED: &str =
        "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    const BLOB: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    let (kind, place) = (text(source, "kind"), text(source, "diskURI"));
    let (start, form) = if kind == "Managed" { ("/subscriptions/", MANAGED) } else { ("https://", BLOB) };
    if !kind.is_empty() && !place.starts_with(start) {
        supported(&place.into(), &[form], &at.child("diskURI"), errors);
    }
}

/// The namespace of the endpoints may differ, but must not be empty.
fn specified_namespace(source: &Object, at: &At<'_>, errors: &mut ErrorList) {
    if let Some(namespace) = source.get("endpointsNamespace") {
        let at = at.child("endpointsNamespace");
        let name = namespace.as_str().unwrap_or_default();
        if name.is_empty() {
            let detail = "if the endpointnamespace is set, it must be a valid namespace name";
            invalid(errors, &at, namespace, detail);
        } else {
            for complaint in names::is_dns1123_label(name) {
                invalid(errors, &at, namespace, &complaint);
            }
        }
    }
    if source.get("secretNamespace").is_some_and(|namespace| namespace == "") {
        required(errors, &at.child("secretNamespace"), "");
    }
}

fn local_secret(source: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let Some(secret) = object(source, "secretRef") else { return };
    if text(secret, "name").is_empty() {
        let at = at.child("secretRef");
        required(errors, &at.child("name"), "");
    }
}

fn secret_and_namespace(source: &Object, at: &At<'_>, errors: &mut ErrorList) {
    local_secret(source, at, errors);
    let Some(secret) = object(source, "secretRef") else { return };
    if text(secret, "namespace").is_empty() {
        let at = at.child("secretRef");
        required(errors, &at.child("namespace"), "");
    }
}

/// The maximum length of a driver's name, which becomes part of other names.
const LONGEST_DRIVER: usize = 63;

fn driver_name(source: &Object, at: &At<'_>, errors: &mut ErrorList) {
    let name = text(source, "driver");
    let at = at.child("driver");
    if name.is_empty() {
        required(errors, &at, "");
    }
    if name.len() > LONGEST_DRIVER {
        errors.push(Error::too_long(&at.path(), LONGEST_DRIVER));
    }
    for complaint in names::is_dns1123_subdomain(&name.to_lowercase()) {
        invalid(errors, &at, &name.into(), &complaint);
    }
}

fn csi_inline(source: &Object, at: &At<'_>, errors: &mut ErrorList) {
    driver_name(source, at, errors);
    let Some(secret) = object(source, "nodePublishSecretRef") else { return };
    let name = text(secret, "name");
    if name.is_empty() {
        let at = at.child("nodePublishSecretRef");
        return required(errors, &at.child("name"), "");
    }
    // Upstream omits the reference from this path.
    for complaint in names::is_dns1123_subdomain(name) {
        invalid(errors, &at.child("name"), &name.into(), &complaint);
    }
}

/// Returns the errors in a name.
type Rule = fn(&str) -> Vec<String>;

fn csi_volume(source: &Object, at: &At<'_>, errors: &mut ErrorList) {
    driver_name(source, at, errors);
    let secrets =
        ["controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"];
    for field in secrets {
        let Some(secret) = object(source, field) else { continue };
        let at = at.child(field);
        let rules = [("name", names::is_dns1123_subdomain as Rule), ("namespace", names::is_dns1123_label)];
        for (part, rule) in rules {
            let (at, name) = (at.child(part), text(secret, part));
            if name.is_empty() {
                required(errors, &at, "");
            } else {
                for complaint in rule(name) {
                    invalid(errors, &at, &name.into(), &complaint);
                }
            }
        }
    }
}
