//! All dependencies between crates are allowed by `xtask::layers`.

use std::collections::BTreeSet;
use std::path::Path;

use cargo_metadata::{DependencyKind, MetadataCommand};
use xtask::circles;
use xtask::layers::{IMPURE, LAYERS};

#[test]
fn dependencies_are_downward_only() {
    let metadata = MetadataCommand::new().no_deps().exec().expect("cargo metadata of this workspace");
    let own: BTreeSet<&str> = LAYERS.iter().map(|layer| layer.name).collect();
    let mut wrong = Vec::new();
    for package in &metadata.packages {
        let name = package.name.as_str();
        let Some(position) = LAYERS.iter().position(|layer| layer.name == name) else {
            wrong.push(format!("{name} is not in xtask/src/layers.rs"));
            continue;
        };
        let layer = &LAYERS[position];
        for dependency in &package.dependencies {
            let to = dependency.name.as_str();
            // Tests may use upper layers: the API server is tested through the client.
            if dependency.kind == DependencyKind::Development {
                continue;
            }
            if own.contains(to) && !layer.may_use.contains(&to) {
                wrong.push(format!("{name} may not use {to}"));
            }
            if layer.pure && IMPURE.contains(&to) {
                wrong.push(format!("{name} is pure and may not use {to}"));
            }
        }
        for above in layer.may_use {
            let at = LAYERS.iter().position(|layer| layer.name == *above);
            if at.is_none_or(|at| at >= position) {
                wrong.push(format!("{name} lists {above}, which does not stand before it"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_layer_exists() {
    let metadata = MetadataCommand::new().no_deps().exec().expect("cargo metadata of this workspace");
    let packages: BTreeSet<&str> = metadata.packages.iter().map(|package| package.name.as_str()).collect();
    for layer in LAYERS {
        assert!(packages.contains(layer.name), "{} is listed but is no package", layer.name);
    }
}

#[test]
fn modules_have_no_circular_imports() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    for layer in LAYERS {
        let src = crates.join(layer.name).join("src");
        if !src.exists() {
            continue;
        }
        let imports = circles::read(&src).expect("readable sources");
        let circular = circles::circular(&imports);
        assert_eq!(
            !circular.is_empty(),
            circles::CIRCULAR.contains(&layer.name),
            "{}: modules in circles: {circular:?}; see xtask/src/circles.rs",
            layer.name
        );
    }
}
