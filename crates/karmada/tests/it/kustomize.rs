//! `-k` of karmadactl compared with the real `kubectl kustomize`: the same objects in the same order.
//!
//! `tests/kustomize` holds one kustomization per file: `=== PATH` begins a file of it, and the directory of the first
//! one is built.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use apimachinery::yaml;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// Writes the files and returns the directory to build.
fn unpack(text: &str, directory: &Path) -> PathBuf {
    let mut top = None;
    for part in text.split("=== ").skip(1) {
        let (path, content) = part.split_once('\n').expect("a path on a line of its own");
        let (path, is_binary) = path.strip_suffix(" base64").map_or((path, false), |path| (path, true));
        let path = directory.join(path);
        let parent = path.parent().expect("in the directory").to_owned();
        fs::create_dir_all(&parent).expect("created");
        let decoded = is_binary.then(|| STANDARD.decode(content.trim()).expect("base64"));
        fs::write(&path, decoded.unwrap_or_else(|| content.as_bytes().to_vec())).expect("written");
        top.get_or_insert(parent);
    }
    top.expect("a kustomization")
}

fn run(command: &mut Command) -> Result<Vec<Value>, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if !output.status.success() {
        return Err(text(&output.stderr));
    }
    yaml::documents(&output.stdout).map_err(|error| format!("{error}\n{}", text(&output.stdout)))
}

/// An empty patch that is applied on this side prints the objects.
fn built(directory: &Path) -> Result<Vec<Value>, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_karmada"));
    command.args(["karmadactl", "patch", "--local", "--type=merge", "-p", "{}", "-o", "yaml", "-k"]).arg(directory);
    run(&mut command)
}

#[test]
#[cfg_attr(old_kubectl, ignore = "no kubectl from 1.27 on is on PATH")]
fn kustomizations_are_built_as_kubectl_builds_them() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kustomize");
    let mut names: Vec<PathBuf> =
        fs::read_dir(cases).expect("the cases").map(|entry| entry.expect("readable").path()).collect();
    names.sort();
    assert!(names.len() >= 12, "{names:?}");
    let mut differences = String::new();
    for path in names {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let directory = tempfile::tempdir().expect("a temporary directory");
        let top = unpack(&fs::read_to_string(&path).expect("in UTF-8"), directory.path());
        let by_kubectl = run(Command::new("kubectl").arg("kustomize").arg(&top));
        let by_kubectl = by_kubectl.unwrap_or_else(|error| panic!("kubectl kustomize builds {name}: {error}"));
        match built(&top) {
            Ok(built) => differences.push_str(&difference(&name, &built, &by_kubectl)),
            Err(error) => differences.push_str(&format!("{name}: {error}\n")),
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

fn difference(name: &str, built: &[Value], by_kubectl: &[Value]) -> String {
    let id = |object: &Value| format!("{} {}", object["kind"], object["metadata"]["name"]);
    let order = |objects: &[Value]| objects.iter().map(id).collect::<Vec<_>>();
    if order(built) != order(by_kubectl) {
        return format!("{name}: objects\n- {}\n+ {}\n", order(built).join("\n  "), order(by_kubectl).join("\n  "));
    }
    let pairs = built.iter().zip(by_kubectl).filter(|(our, their)| our != their);
    pairs
        .map(|(our, their)| format!("{name}: ours\n{}theirs\n{}", yaml::to_string(our), yaml::to_string(their)))
        .collect()
}
