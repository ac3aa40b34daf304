//! Volumes of pods, persistent volumes, and claims.

use std::collections::BTreeMap;

use apimachinery::field::{Path, go_quoted};
use serde_json::Value;

use super::{Texts, Written, fractions, list, nodes, text};

const GONE: [(&str, &str, &str); 9] = [
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// Types for which upstream warns in persistent volumes, in its order.
const GONE_PERSISTENT: [&str; 6] = ["cephfs", "photonPersistentDisk", "scaleIO", "storageos", "glusterfs", "rbd"];

const STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

fn gone(source: &Value, field: &str, at: &Path, texts: &mut Texts) {
    let row = GONE.iter().find(|(name, ..)| *name == field);
    if let Some((_, shown, why)) = row.filter(|_| source.get(field).is_some()) {
        texts.at(&at.child(shown), why);
    }
}

fn old_class(object: &Value, texts: &mut Texts) {
    if Written::has_annotation(object, STORAGE_CLASS) {
        let why = "deprecated since v1.8; use \"storageClassName\" attribute instead";
        texts.at(&Path::new("metadata").child("annotations").key(STORAGE_CLASS), why);
    }
}

pub(super) fn volume(volume: &Value, texts: &mut Texts) {
    let (spec, at) = (&volume["spec"], Path::new("spec"));
    old_class(volume, texts);
    if spec["persistentVolumeReclaimPolicy"] == "Recycle" {
        texts.at(
            &at.child("persistentVolumeReclaimPolicy"),
            "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.",
        );
    }
    let terms = at.child("nodeAffinity").child("required").child("nodeSelectorTerms");
    for (index, term) in list(&spec["nodeAffinity"]["required"]["nodeSelectorTerms"]).enumerate() {
        nodes::term(term, &terms.index(index), texts);
    }
    for field in GONE_PERSISTENT {
        gone(spec, field, &at, texts);
    }
}

pub(super) fn claim(claim: &Value, texts: &mut Texts) {
    old_class(claim, texts);
    claim_spec(&claim["spec"], &Path::new("spec"), texts);
}

pub(super) fn claim_spec(spec: &Value, at: &Path, texts: &mut Texts) {
    for part in ["requests", "limits"] {
        fractions(&spec["resources"][part], &["storage"], &at.child("resources").child(part), texts);
    }
}

/// The volumes of a pod.
pub(super) fn of_pod(volumes: &Value, at: &Path, texts: &mut Texts) {
    for (index, volume) in list(volumes).enumerate() {
        let at = at.index(index);
        for (field, ..) in GONE {
            gone(volume, field, &at, texts);
        }
        let template = &volume["ephemeral"]["volumeClaimTemplate"];
        let at = at.child("ephemeral").child("volumeClaimTemplate").child("spec");
        claim_spec(&template["spec"], &at, texts);
    }
    for volume in list(volumes) {
        overlaps(volume, texts);
    }
}

/// Directories of a path that are compared with other paths, and bytes of a path: longer ones cannot exist on Linux.
const MAX_DEPTH: usize = 64;
const MAX_PATH: usize = 4096;

/// A file in a volume, and the source it comes from.
struct File<'v> {
    path: &'v str,
    source: String,
}

impl File<'_> {
    fn text(&self) -> String {
        let path = go_quoted(self.path);
        if self.source.is_empty() { path } else { format!("{path} ({})", self.source) }
    }
}

/// Files of a volume by their paths, each with a slash at its end: those under a directory follow it.
#[derive(Default)]
struct Tree<'v> {
    files: Vec<File<'v>>,
    by_path: BTreeMap<String, Vec<usize>>,
}

impl<'v> Tree<'v> {
    /// Adds a file; reports earlier ones with the same path, above it, or under it.
    fn add(&mut self, file: File<'v>, volume: &str, texts: &mut Texts) {
        let file = File { path: file.path.trim_end_matches('/'), ..file };
        let path = format!("{}/", file.path);
        if !file.path.is_empty() && path.len() <= MAX_PATH && !texts.is_full() {
            let above = file.path.match_indices('/').take(MAX_DEPTH);
            let above = above.filter_map(|(end, _)| self.by_path.get(path.get(..=end)?));
            let under = self.by_path.range(path.clone()..).take_while(|(other, _)| other.starts_with(&path));
            let under = under.map(|(_, indexes)| indexes);
            let mut others: Vec<usize> = above.chain(under).flatten().copied().take(super::MAX_TEXTS).collect();
            others.sort_unstable();
            for other in others.into_iter().filter_map(|index| self.files.get(index)) {
                texts.push(format!("volume {volume}: overlapping paths: {} with {}", file.text(), other.text()));
            }
            self.by_path.entry(path).or_default().push(self.files.len());
        }
        self.files.push(file);
    }
}

fn items<'v>(source: &'v Value, name: &str, tree: &mut Tree<'v>, volume: &str, texts: &mut Texts) {
    for item in list(&source["items"]) {
        tree.add(File { path: text(item, "path"), source: name.to_owned() }, volume, texts);
    }
}

/// Paths of a volume that hide each other.
fn overlaps(volume: &Value, texts: &mut Texts) {
    let name = go_quoted(text(volume, "name"));
    for (field, kind, of) in
        [("configMap", "ConfigMap", "name"), ("secret", "Secret", "secretName"), ("downwardAPI", "DownwardAPI", "")]
    {
        let source = &volume[field];
        let shown = match of {
            "" => format!("{name} ({kind})"),
            of => format!("{name} ({kind} {})", go_quoted(text(source, of))),
        };
        items(source, "", &mut Tree::default(), &shown, texts);
    }
    let (mut tree, shown) = (Tree::default(), format!("{name} (Projected)"));
    for source in list(&volume["projected"]["sources"]) {
        if source.as_object().is_none_or(serde_json::Map::is_empty) {
            texts.push(format!("volume {shown} has no sources provided"));
            continue;
        }
        projected(source, &mut tree, &shown, texts);
    }
}

fn projected<'v>(source: &'v Value, tree: &mut Tree<'v>, volume: &str, texts: &mut Texts) {
    for (field, kind) in [("configMap", "ConfigMap"), ("secret", "Secret")] {
        let name = format!("{kind} {}", go_quoted(text(&source[field], "name")));
        items(&source[field], &name, tree, volume, texts);
    }
    items(&source["downwardAPI"], "DownwardAPI", tree, volume, texts);
    let certificate = &source["podCertificate"];
    let bundle = &source["clusterTrustBundle"];
    let named = bundle.get("name").or_else(|| bundle.get("signerName")).and_then(Value::as_str).unwrap_or_default();
    for (path, name) in [
        (&source["serviceAccountToken"]["path"], "ServiceAccountToken".to_owned()),
        (&bundle["path"], format!("ClusterTrustBundle {}", go_quoted(named))),
        (&certificate["certificateChainPath"], "PodCertificate chain".to_owned()),
        (&certificate["keyPath"], "PodCertificate key".to_owned()),
        (&certificate["credentialBundlePath"], "PodCertificate credential bundle".to_owned()),
    ] {
        if let Some(path) = path.as_str() {
            tree.add(File { path, source: name }, volume, texts);
        }
    }
}
