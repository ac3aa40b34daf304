//! Kustomizations in memory: refused features and their errors. Build results are compared with kubectl in
//! `crates/karmada/tests/it/kustomize.rs`.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};

use expect_test::{Expect, expect};

use super::config::UNSUPPORTED;
use super::{BuildError, Reader, build};

/// Files by absolute path.
struct Memory(BTreeMap<PathBuf, String>);

impl Memory {
    /// `/dir/file`, a colon, and the content with `;` for ends of lines.
    fn new(files: &[(&str, &str)]) -> Self {
        Self(files.iter().map(|(path, content)| (PathBuf::from(path), content.replace("; ", "\n"))).collect())
    }
}

impl Reader for Memory {
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        let mut resolved = PathBuf::new();
        for part in path.components() {
            match part {
                Component::ParentDir => drop(resolved.pop()),
                Component::CurDir => {}
                part => resolved.push(part),
            }
        }
        let exists = self.0.keys().any(|file| file.starts_with(&resolved));
        if exists { Ok(resolved) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    fn is_directory(&self, path: &Path) -> bool {
        !self.0.contains_key(path)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.0.get(path).map(|text| text.clone().into_bytes()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

const MAP: &str = "apiVersion: v1; kind: ConfigMap; metadata: {name: a}";

fn check(files: &[(&str, &str)], expected: &Expect) {
    let shown = match build(&Memory::new(files), Path::new("/k")) {
        Ok(objects) => objects.iter().map(apimachinery::yaml::to_string).collect::<Vec<_>>().join("---\n"),
        Err(error) => format!("{error}\n"),
    };
    expected.assert_eq(&shown);
}

#[test]
fn every_unsupported_field_is_refused_by_name() {
    for field in UNSUPPORTED {
        let text = format!("resources: [a.yaml]; {field}: []");
        let files = [("/k/kustomization.yaml", text.as_str()), ("/k/a.yaml", MAP)];
        let found = build(&Memory::new(&files), Path::new("/k"));
        let what = format!("the field {field:?}");
        assert_eq!(found, Err(BuildError::Unsupported { kustomization: "/k".into(), what }));
    }
    for (text, field) in [
        ("images: [{name: a, tagSuffix: -b}]", "images.tagSuffix"),
        ("labels: [{pairs: {a: b}, fields: [{path: spec}]}]", "labels.fields"),
        ("sortOptions: {order: legacy, legacySortOptions: {}}", "sortOptions.legacySortOptions"),
    ] {
        let found = build(&Memory::new(&[("/k/kustomization.yaml", text)]), Path::new("/k"));
        let what = format!("the field {field:?}");
        assert_eq!(found, Err(BuildError::Unsupported { kustomization: "/k".into(), what }));
    }
}

#[test]
fn remote_resources_are_refused_by_name() {
    for remote in ["https://e.com/a.yaml", "github.com/o/r//base?ref=v1", "git@github.com:o/r", "ssh://e.com/r"] {
        let text = format!("resources: ['{remote}']");
        let found = build(&Memory::new(&[("/k/kustomization.yaml", &text)]), Path::new("/k"));
        let what = format!("the remote resource {remote:?}");
        assert_eq!(found, Err(BuildError::Unsupported { kustomization: "/k".into(), what }));
    }
}

#[test]
fn errors_name_their_file() {
    check(
        &[("/k/x", "")],
        &expect![[r#"
        /k: unable to find one of 'kustomization.yaml', 'kustomization.yml' or 'Kustomization' in the directory
    "#]],
    );
    check(
        &[("/k/kustomization.yaml", "{}"), ("/k/Kustomization", "{}")],
        &expect![[r#"
        /k: found multiple kustomization files: kustomization.yaml, Kustomization
    "#]],
    );
    check(
        &[("/k/kustomization.yaml", "")],
        &expect![[r#"
        /k: kustomization.yaml is empty or not a map
    "#]],
    );
    check(
        &[("/k/kustomization.yaml", "nosuch: 1")],
        &expect![[r#"
        /k: kustomization.yaml: unknown field `nosuch`, expected one of `apiVersion`, `kind`, `metadata`, `resources`, `bases`, `components`, `namespace`, `namePrefix`, `nameSuffix`, `labels`, `commonLabels`, `commonAnnotations`, `images`, `replicas`, `patches`, `patchesStrategicMerge`, `patchesJson6902`, `configMapGenerator`, `secretGenerator`, `generatorOptions`, `sortOptions`
    "#]],
    );
    check(
        &[("/k/kustomization.yaml", "resources: [none.yaml]")],
        &expect![[r#"
        /k: "none.yaml": entity not found
    "#]],
    );
    check(
        &[("/k/kustomization.yaml", "resources: [../o/a.yaml]"), ("/o/a.yaml", MAP)],
        &expect![[r#"
        /k: file /o/a.yaml is not in or below /k; move it there, or make its directory a base
    "#]],
    );
    check(
        &[("/k/kustomization.yaml", "resources: [../o]"), ("/o/kustomization.yaml", "resources: [../k]")],
        &expect![[r#"
            /k: cycle detected: /k is, or contains, /k
        "#]],
    );
    check(
        &[("/k/kustomization.yaml", "resources: [a.yaml, b.yaml]"), ("/k/a.yaml", MAP), ("/k/b.yaml", MAP)],
        &expect![[r#"
            /k: may not add resource with an already registered id: ConfigMap.v1.[noGrp]/a.[noNs]
        "#]],
    );
    check(
        &[("/k/kustomization.yaml", "resources: [a.yaml]"), ("/k/a.yaml", "a: b")],
        &expect![[r#"
        /k/a.yaml: an object has no apiVersion
    "#]],
    );
    check(
        &[("/k/kustomization.yaml", "components: [../o]"), ("/o/kustomization.yaml", "resources: []")],
        &expect![[r#"
        /o: kustomization.yaml is of kind "Kustomization", a Component is required here
    "#]],
    );
    let replicas = "resources: [a.yaml]; replicas: [{name: a, count: 1}]";
    check(
        &[("/k/kustomization.yaml", replicas), ("/k/a.yaml", MAP)],
        &expect![[r#"
        /k: replicas: no resource named "a" of the kinds Deployment, ReplicationController, ReplicaSet, StatefulSet
    "#]],
    );
    let merge = "configMapGenerator: [{name: a, behavior: merge}]";
    check(
        &[("/k/kustomization.yaml", merge)],
        &expect![[r#"
        /k: ConfigMap.v1.[noGrp]/a.[noNs] does not exist; cannot merge or replace
    "#]],
    );
    let twice = "configMapGenerator: [{name: a, literals: [a=b, a=c]}]";
    check(
        &[("/k/kustomization.yaml", twice)],
        &expect![[r#"
        /k: cannot add key "a" to "a", another key by that name already exists
    "#]],
    );
    let patch = "resources: [a.yaml]; patches: [{patch: '{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}'}]";
    check(
        &[("/k/kustomization.yaml", patch), ("/k/a.yaml", MAP)],
        &expect![[r#"
        /k: no resource matches the strategic merge patch of ConfigMap.v1.[noGrp]/b.[noNs]
    "#]],
    );
    let untargeted = "resources: [a.yaml]; patches: [{patch: '[{op: add, path: /data, value: {}}]'}]";
    check(
        &[("/k/kustomization.yaml", untargeted), ("/k/a.yaml", MAP)],
        &expect![[r#"
        /k: a JSON patch must have a target
    "#]],
    );
    let pattern = "resources: [a.yaml]; patches: [{patch: '{}', target: {name: '('}}]";
    check(
        &[("/k/kustomization.yaml", pattern), ("/k/a.yaml", MAP)],
        &expect![[r#"
        /k: the target's pattern "(" is invalid: regex parse error:
            ^(?:()$
             ^
        error: unclosed group
    "#]],
    );
}

#[test]
fn references_follow_the_hash_of_generated_names() {
    let text = "resources: [p.yaml]; namePrefix: p-; configMapGenerator: [{name: a, literals: [k=<v>]}]";
    let pod = "apiVersion: v1; kind: Pod; metadata: {name: p}; spec: {volumes: [{name: v, configMap: {name: a}}]}";
    check(
        &[("/k/kustomization.yaml", text), ("/k/p.yaml", pod)],
        &expect![[r#"
        apiVersion: v1
        data:
          k: <v>
        kind: ConfigMap
        metadata:
          name: p-a-m95cgghbtk
        ---
        apiVersion: v1
        kind: Pod
        metadata:
          name: p-p
        spec:
          volumes:
          - configMap:
              name: p-a-m95cgghbtk
            name: v
    "#]],
    );
}

/// A merged config map has a hash only if both were generated with one, as for kubectl.
#[test]
fn merged_generators_keep_the_name() {
    let name = |base: &str, generator: &str| {
        let over = format!("resources: [b]; configMapGenerator: [{{name: a, literals: [x=y], {generator}}}]");
        let base = [("/k/b/kustomization.yaml", base), ("/k/b/a.yaml", MAP)];
        let files: Vec<(&str, &str)> = [("/k/kustomization.yaml", over.as_str())].into_iter().chain(base).collect();
        match build(&Memory::new(&files), Path::new("/k")) {
            Ok(objects) => objects[0]["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            Err(error) => error.to_string(),
        }
    };
    let (plain, generated) = ("resources: [a.yaml]", "configMapGenerator: [{name: a, literals: [k=v]}]");
    let unhashed = "configMapGenerator: [{name: a, literals: [k=v], options: {disableNameSuffixHash: true}}]";
    for behavior in ["behavior: merge", "behavior: replace"] {
        assert_eq!(name(plain, behavior), "a");
        assert_eq!(name(unhashed, behavior), "a");
        assert!(name(generated, behavior).starts_with("a-"));
        assert_eq!(name(generated, &format!("{behavior}, options: {{disableNameSuffixHash: true}}")), "a");
    }
    // Also under another name, which the base gave it.
    let prefixed = format!("{generated}; namePrefix: p-");
    assert!(name(&prefixed, "").ends_with("exists; behavior must be merge or replace"), "{}", name(&prefixed, ""));
}
