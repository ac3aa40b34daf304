//! PersistentVolumes, and the sources of volumes of pods and PersistentVolumes.

use jiff::Timestamp;
use serde_json::Value;

use super::super::lines::Lines;
use super::{entries, items, rfc1123, terminating, text, values};
use crate::table::cut;

/// How a field is printed.
#[derive(Clone, Copy)]
enum Form {
    /// As it is, or the text where it is absent.
    Or(&'static str),
    /// `[a b]`
    List,
    /// `a, b`
    Joined,
    /// `&SecretReference{Name:a,Namespace:b,}`, of pods `&LocalObjectReference{Name:a,}`.
    Reference,
    /// `map[a:b]`
    Options,
    /// A line for each pair.
    Attributes,
}
use Form::{Attributes, Joined, List, Options, Or, Reference};

const TEXT: Form = Or("");
const FLAG: Form = Or("false");

/// A label, the path of its value, and its form.
type Field = (&'static str, &'static str, Form);

const FS: Field = ("FSType", "fsType", TEXT);
const READ_ONLY: Field = ("ReadOnly", "readOnly", FLAG);
const SECRET: Field = ("SecretRef", "secretRef", Reference);
const VOLUME_ID: Field = ("VolumeID", "volumeID", TEXT);
const VOLUME_NAME: Field = ("VolumeName", "volumeName", TEXT);
const PARTITION: Field = ("Partition", "partition", Or("0"));

/// Fields that only sources of PersistentVolumes have.
const OF_PERSISTENT_VOLUMES: [&str; 5] =
    ["endpointsNamespace", "secretNamespace", "secretRef.name", "secretRef.namespace", "volumeHandle"];

/// The field of a type of source, its name in kubectl, and its fields.
type SourceType = (&'static str, &'static str, &'static [Field]);

#[rustfmt::skip]
const SOURCES: &[SourceType] = &[
    ("configMap", "ConfigMap (a volume populated by a ConfigMap)", &[("Name", "name", TEXT), ("Optional", "optional", FLAG)]),
    ("secret", "Secret (a volume populated by a Secret)", &[("SecretName", "secretName", TEXT), ("Optional", "optional", FLAG)]),
    ("emptyDir", "EmptyDir (a temporary directory that shares a pod's lifetime)",
        &[("Medium", "medium", TEXT), ("SizeLimit", "sizeLimit", Or("<unset>"))]),
    ("hostPath", "HostPath (bare host directory volume)", &[("Path", "path", TEXT), ("HostPathType", "type", Or("<none>"))]),
    ("persistentVolumeClaim", "PersistentVolumeClaim (a reference to a PersistentVolumeClaim in the same namespace)",
        &[("ClaimName", "claimName", TEXT), READ_ONLY]),
    ("nfs", "NFS (an NFS mount that lasts the lifetime of a pod)", &[("Server", "server", TEXT), ("Path", "path", TEXT), READ_ONLY]),
    ("csi", "CSI (a Container Storage Interface (CSI) volume source)",
        &[("Driver", "driver", TEXT), FS, ("VolumeHandle", "volumeHandle", TEXT), READ_ONLY, ("VolumeAttributes", "volumeAttributes", Attributes)]),
    ("local", "LocalVolume (a persistent volume backed by local storage on a node)", &[("Path", "path", TEXT)]),
    ("gcePersistentDisk", "GCEPersistentDisk (a Persistent Disk resource in Google Compute Engine)",
        &[("PDName", "pdName", TEXT), FS, PARTITION, READ_ONLY]),
    ("awsElasticBlockStore", "AWSElasticBlockStore (a Persistent Disk resource in AWS)", &[VOLUME_ID, FS, PARTITION, READ_ONLY]),
    ("gitRepo", "GitRepo (a volume that is pulled from git when the pod is created)",
        &[("Repository", "repository", TEXT), ("Revision", "revision", TEXT)]),
    ("image", "Image (a container image or OCI artifact)", &[("Reference", "reference", TEXT), ("PullPolicy", "pullPolicy", TEXT)]),
    ("iscsi", "ISCSI (an ISCSI Disk resource that is attached to a kubelet's host machine and then exposed to the pod)",
        &[("TargetPortal", "targetPortal", TEXT), ("IQN", "iqn", TEXT), ("Lun", "lun", Or("0")), ("ISCSIInterface", "iscsiInterface", TEXT), FS,
          READ_ONLY, ("Portals", "portals", List), ("DiscoveryCHAPAuth", "chapAuthDiscovery", FLAG),
          ("SessionCHAPAuth", "chapAuthSession", FLAG), SECRET, ("InitiatorName", "initiatorName", Or("<none>"))]),
    ("glusterfs", "Glusterfs (a Glusterfs mount on the host that shares a pod's lifetime)",
        &[("EndpointsName", "endpoints", TEXT), ("EndpointsNamespace", "endpointsNamespace", Or("<unset>")), ("Path", "path", TEXT), READ_ONLY]),
    ("rbd", "RBD (a Rados Block Device mount on the host that shares a pod's lifetime)",
        &[("CephMonitors", "monitors", List), ("RBDImage", "image", TEXT), FS, ("RBDPool", "pool", TEXT), ("RadosUser", "user", TEXT),
          ("Keyring", "keyring", TEXT), SECRET, READ_ONLY]),
    ("cephfs", "CephFS (a CephFS mount on the host that shares a pod's lifetime)",
        &[("Monitors", "monitors", List), ("Path", "path", TEXT), ("User", "user", TEXT), ("SecretFile", "secretFile", TEXT), SECRET, READ_ONLY]),
    ("cinder", "Cinder (a Persistent Disk resource in OpenStack)", &[VOLUME_ID, FS, READ_ONLY, SECRET]),
    ("fc", "FC (a Fibre Channel disk)", &[("TargetWWNs", "targetWWNs", Joined), ("LUN", "lun", Or("<none>")), FS, READ_ONLY]),
    ("flocker", "Flocker (a Flocker volume mounted by the Flocker agent)",
        &[("DatasetName", "datasetName", TEXT), ("DatasetUUID", "datasetUUID", TEXT)]),
    ("flexVolume", "FlexVolume (a generic volume resource that is provisioned/attached using an exec based plugin)",
        &[("Driver", "driver", TEXT), FS, SECRET, READ_ONLY, ("Options", "options", Options)]),
    ("azureFile", "AzureFile (an Azure File Service mount on the host and bind mount to the pod)",
        &[("SecretName", "secretName", TEXT), ("SecretNamespace", "secretNamespace", TEXT), ("ShareName", "shareName", TEXT), READ_ONLY]),
    ("azureDisk", "AzureDisk (an Azure Data Disk mount on the host and bind mount to the pod)",
        &[("DiskName", "diskName", TEXT), ("DiskURI", "diskURI", TEXT), ("Kind", "kind", TEXT), FS, ("CachingMode", "cachingMode", TEXT), READ_ONLY]),
    ("vsphereVolume", "vSphereVolume (a Persistent Disk resource in vSphere)",
        &[("VolumePath", "volumePath", TEXT), FS, ("StoragePolicyName", "storagePolicyName", TEXT)]),
    ("quobyte", "Quobyte (a Quobyte mount on the host that shares a pod's lifetime)",
        &[("Registry", "registry", TEXT), ("Volume", "volume", TEXT), READ_ONLY]),
    ("photonPersistentDisk", "PhotonPersistentDisk (a Persistent Disk resource in photon platform)", &[("PdID", "pdID", TEXT), FS]),
    ("portworxVolume", "PortworxVolume (a Portworx Volume resource)", &[VOLUME_ID]),
    ("scaleIO", "ScaleIO (a persistent volume backed by a block device in ScaleIO)",
        &[("Gateway", "gateway", TEXT), ("System", "system", TEXT), ("Protection Domain", "protectionDomain", TEXT),
          ("Storage Pool", "storagePool", TEXT), ("Storage Mode", "storageMode", TEXT), VOLUME_NAME, ("SecretName", "secretRef.name", TEXT),
          ("SecretNamespace", "secretRef.namespace", TEXT), FS, READ_ONLY]),
    ("storageos", "StorageOS (a StorageOS Persistent Disk resource)",
        &[VOLUME_NAME, ("VolumeNamespace", "volumeNamespace", TEXT), FS, READ_ONLY]),
];

pub fn persistent_volume(lines: &mut Lines, object: &Value, now: Timestamp) {
    let (metadata, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    lines.text(0, &format!("Name:\t{}", text(&metadata["name"])));
    lines.map(0, "Labels:", &metadata["labels"], "=");
    lines.map(0, "Annotations:", &metadata["annotations"], ": ");
    lines.text(0, &format!("Finalizers:\t{}", list(&metadata["finalizers"], " ")));
    lines.text(0, &format!("StorageClass:\t{}", text(&spec["storageClassName"])));
    let shown = terminating(metadata, now).unwrap_or_else(|| text(&status["phase"]));
    lines.text(0, &format!("Status:\t{shown}"));
    let claim = &spec["claimRef"];
    let claim = match claim.is_object() {
        true => format!("{}/{}", text(&claim["namespace"]), text(&claim["name"])),
        false => String::new(),
    };
    lines.text(0, &format!("Claim:\t{claim}"));
    lines.text(0, &format!("Reclaim Policy:\t{}", text(&spec["persistentVolumeReclaimPolicy"])));
    lines.text(0, &format!("Access Modes:\t{}", access_modes(&spec["accessModes"])));
    if spec["volumeMode"].is_string() {
        lines.text(0, &format!("VolumeMode:\t{}", text(&spec["volumeMode"])));
    }
    lines.text(0, &format!("Capacity:\t{}", spec["capacity"].get("storage").map_or_else(|| "0".to_owned(), values)));
    node_affinity(lines, &spec["nodeAffinity"]);
    lines.text(0, &format!("Message:\t{}", text(&status["message"])));
    lines.text(0, "Source:");
    if !source(lines, spec, true) {
        lines.text(1, "<unknown>");
    }
}

/// `RWO,ROX`
pub fn access_modes(modes: &Value) -> String {
    let modes = items(modes).map(|it| match text(it).as_str() {
        "ReadWriteOnce" => "RWO".to_owned(),
        "ReadOnlyMany" => "ROX".to_owned(),
        "ReadWriteMany" => "RWX".to_owned(),
        "ReadWriteOncePod" => "RWOP".to_owned(),
        other => other.to_owned(),
    });
    modes.collect::<Vec<_>>().join(",")
}

fn node_affinity(lines: &mut Lines, affinity: &Value) {
    if !affinity["required"].is_object() {
        return lines.text(0, "Node Affinity:\t<none>");
    }
    lines.text(0, "Node Affinity:\t");
    let terms = &affinity["required"]["nodeSelectorTerms"];
    if items(terms).next().is_none() {
        return lines.text(1, "Required Terms:\t<none>");
    }
    lines.text(1, "Required Terms:\t");
    for (position, term) in items(terms).enumerate() {
        let expressions = items(&term["matchExpressions"]);
        let shown: Vec<String> = expressions
            .map(|it| {
                let (key, operator) = (text(&it["key"]), text(&it["operator"]).to_lowercase());
                match items(&it["values"]).next() {
                    None => format!("{key} {operator}"),
                    Some(_) => format!("{key} {operator} {}", list(&it["values"], ", ")),
                }
            })
            .collect();
        if shown.is_empty() {
            lines.text(2, &format!("Term {position}:\t<none>"));
        }
        for (line, expression) in shown.iter().enumerate() {
            let label = if line == 0 { format!("Term {position}:") } else { String::new() };
            lines.text(2, &format!("{label}\t{expression}"));
        }
    }
}

fn list(values: &Value, separator: &str) -> String {
    format!("[{}]", items(values).map(text).collect::<Vec<_>>().join(separator))
}

/// The lines of a known source; `false` without one.
pub fn source(lines: &mut Lines, volume: &Value, is_persistent: bool) -> bool {
    let Some((name, title, fields)) = SOURCES.iter().find(|(name, ..)| volume[*name].is_object()) else { return false };
    lines.text(2, &format!("Type:\t{title}"));
    for (label, path, form) in *fields {
        if !is_persistent && OF_PERSISTENT_VOLUMES.contains(path) {
            continue;
        }
        let value = path.split('.').fold(&volume[*name], |value, field| &value[field]);
        // This label lacks the colon in kubectl.
        let label = if *label == "ISCSIInterface" { (*label).to_owned() } else { format!("{label}:") };
        if let Attributes = form {
            attributes(lines, &label, value);
        } else {
            lines.text(2, &format!("{label}\t{}", shown(*form, value, is_persistent)));
        }
    }
    true
}

fn shown(form: Form, value: &Value, is_persistent: bool) -> String {
    match (form, value) {
        (Reference, Value::Null) => "nil".to_owned(),
        (Reference, value) if is_persistent => {
            format!("&SecretReference{{Name:{},Namespace:{},}}", text(&value["name"]), text(&value["namespace"]))
        }
        (Reference, value) => format!("&LocalObjectReference{{Name:{},}}", text(&value["name"])),
        (List, value) => list(value, " "),
        (Joined, value) => items(value).map(text).collect::<Vec<_>>().join(", "),
        (Options, value) => {
            let pairs: Vec<String> = entries(value).into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
            format!("map[{}]", pairs.join(" "))
        }
        (Or(absent), Value::Null) => absent.to_owned(),
        (_, value) => values(value),
    }
}

/// kubectl indents each pair again.
pub fn attributes(lines: &mut Lines, label: &str, map: &Value) {
    let pairs = entries(map);
    if pairs.is_empty() {
        lines.text(2, &format!("{label}\t<none>"));
    }
    for (position, (key, value)) in pairs.iter().enumerate() {
        let line = format!("{key}={value}");
        let line = cut(&line, 140);
        lines.text(2, &format!("{}\t    {line}", if position == 0 { label } else { "    " }));
    }
}

pub fn csi_node(lines: &mut Lines, object: &Value) {
    let metadata = &object["metadata"];
    lines.text(0, &format!("Name:\t{}", text(&metadata["name"])));
    lines.map(0, "Labels:", &metadata["labels"], "=");
    lines.map(0, "Annotations:", &metadata["annotations"], ": ");
    lines.text(0, &format!("CreationTimestamp:\t{}", rfc1123(&text(&metadata["creationTimestamp"]))));
    lines.text(0, "Spec:");
    lines.text(1, "Drivers:");
    for driver in items(&object["spec"]["drivers"]) {
        lines.text(2, &format!("{}:", text(&driver["name"])));
        lines.text(3, &format!("Node ID:\t{}", text(&driver["nodeID"])));
        if let Some(count) = driver["allocatable"]["count"].as_i64() {
            lines.text(3, "Allocatables:");
            lines.text(4, &format!("Count:\t{count}"));
        }
        if driver["topologyKeys"].is_array() {
            let keys: Vec<String> = items(&driver["topologyKeys"]).map(text).collect();
            lines.text(3, &format!("Topology Keys:\t[{}]", keys.join(" ")));
        }
    }
}
