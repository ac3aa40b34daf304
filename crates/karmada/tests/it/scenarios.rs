//! Scenarios as text: a user's commands and their output, on a control plane with three simulated members in this
//! process, on virtual time. The files are `tests/scenarios/*.txt` in the format of [`crate::transcript`]; the commands
//! are those of [`Session::run`], and the first line names the enabled feature gates, and after a `+` controllers that
//! do not run by default.
//!
//! ```text
//! $ apply FILE                               creates or patches every object of a file
//! $ patch KIND [NS/]NAME JSON [/status] [@MEMBER]   a merge patch
//! $ delete KIND [NS/]NAME [@MEMBER]          in the background
//! $ get KIND [NS/]NAME PATH... [@MEMBER]     values by path: spec.a[0].b, a[*].b, a[name=x].b, a["k/l"]; `-` for none
//! $ same KIND NAME PATH KIND NAME PATH [@MEMBER]    `same`, or both values; the member is the second object's
//! $ list KIND NS|- [@MEMBER]                 names
//! $ events KIND [NS/]NAME REASON...          type, reason and message of the newest event of each reason
//! $ sleep SECONDS
//! ```
//!
//! A NAME may end in `*`: the first object whose name starts with it.
//!
//! `SCENARIO=NAME` plays those whose name contains it; `UPDATE_SCENARIOS=1` updates their output.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use apimachinery::{ApiResource, GroupVersionKind, ObjectKey, yaml};
use client::{Client, DeleteOptions, ListOptions, Patch, PatchOptions};
use serde_json::{Value, json};

use crate::plane::Plane;
use crate::transcript::{Part, Step, Transcript, normalise};

/// The time-out of a step marked `~`, in virtual time: longer than any back-off.
const PATIENCE: Duration = Duration::from_secs(420);

/// Steps have no versions here; every condition on one holds.
const NEWEST: u32 = 99;

struct Session {
    plane: Plane,
    files: BTreeMap<String, String>,
    resources: Vec<client::DiscoveredResource>,
}

type Answer = Result<String, String>;

impl Session {
    async fn start(server: &str) -> Self {
        let gates: Vec<&str> = server.split_whitespace().skip(1).collect();
        assert!(server.starts_with("plane"), "no server {server:?}; there is `plane`, with feature gates after it");
        let plane = Plane::start_with(|options| {
            for gate in &gates {
                match *gate {
                    "Failover" => options.settings.gates.failover = true,
                    "PropagationPolicyPreemption" => options.settings.gates.preemption = true,
                    "MultiplePodTemplatesScheduling" => options.settings.gates.multiple_pod_templates = true,
                    "ResourceQuotaEstimate" => options.settings.gates.resource_quota_estimate = true,
                    "FederatedQuotaEnforcement" => {
                        options.settings.gates.quota_enforcement = true;
                        options.server.admission.quota_enforcement = true;
                    }
                    other => match other.strip_prefix('+') {
                        Some(controller) => options.controllers.push(controller.to_owned()),
                        None => panic!("scenarios know no feature gate {other:?}"),
                    },
                }
            }
        });
        let mut session = Self { plane: plane.await, files: BTreeMap::new(), resources: Vec::new() };
        session.discover().await;
        session
    }

    async fn discover(&mut self) {
        self.resources = self.plane.client().discovery().await.expect("discovery").resources;
    }

    fn client(&self, member: Option<&str>) -> Result<Client, String> {
        let Some(name) = member else { return Ok(self.plane.client().clone()) };
        let mut members = self.plane.plane.members().iter();
        let found = members.find(|member| member.name() == name);
        found.map(|member| member.client().clone()).ok_or_else(|| format!("there is no member {name}"))
    }

    /// By plural, singular, kind in lower case, short name, or any of the first two followed by the group.
    fn resource(&self, word: &str) -> Result<ApiResource, String> {
        let (name, group) = word.split_once('.').map_or((word, None), |(name, group)| (name, Some(group)));
        let found = self.resources.iter().find(|it| {
            group.is_none_or(|group| it.resource.group == group)
                && (it.resource.plural == name
                    || it.singular == name
                    || it.short_names.iter().any(|short| short == name))
        });
        found.map(|it| it.resource.clone()).ok_or_else(|| format!("the server doesn't have a resource type {word:?}"))
    }

    /// Runs one command.
    async fn run(&mut self, command: &str) -> Answer {
        let (words, member) = match command.rsplit_once(" @") {
            Some((words, member)) if !member.contains(' ') => (words, Some(member)),
            _ => (command, None),
        };
        let client = self.client(member)?;
        let parts: Vec<&str> = words.splitn(4, ' ').collect();
        match parts.as_slice() {
            ["apply", file] => self.apply(&client, file).await,
            ["patch", kind, name, patch] => {
                let (patch, options) = match patch.strip_suffix(" /status") {
                    Some(patch) => (patch, PatchOptions::status()),
                    None => (*patch, PatchOptions::default()),
                };
                let patch: Value = serde_json::from_str(patch).map_err(|error| format!("{patch}: {error}"))?;
                // Under another name than in the control plane.
                let options = PatchOptions { field_manager: Some("kubectl-patch".into()), ..options };
                let (resource, patch) = (self.resource(kind)?, Patch::Merge(patch));
                let patched = client.patch(&resource, &key(name), &patch, &options).await;
                patched.map(|_| format!("{name} patched")).map_err(words_of)
            }
            ["delete", kind, name] => {
                let deleted = client.delete(&self.resource(kind)?, &key(name), &DeleteOptions::background()).await;
                deleted.map(|()| format!("{name} deleted")).map_err(words_of)
            }
            ["get", kind, name, paths] => {
                let resource = self.resource(kind)?;
                let tree = read(&client, &resource, name).await?;
                Ok(paths.split(' ').map(|path| at_path(&tree, path)).collect::<Vec<_>>().join(" "))
            }
            ["same", kind, name, rest] => {
                let rest: Vec<&str> = rest.splitn(4, ' ').collect();
                let [path, other, of, at] = rest.as_slice() else { return Err("two values to compare".to_owned()) };
                let one = read(self.plane.client(), &self.resource(kind)?, name).await?;
                let two = read(&client, &self.resource(other)?, of).await?;
                let (one, two) = (at_path(&one, path), at_path(&two, at));
                Ok(if one == two && one != "-" { "same".to_owned() } else { format!("{one} {two}") })
            }
            ["list", kind, namespace] => {
                let namespace = Some(*namespace).filter(|namespace| *namespace != "-");
                let list = client.list(&self.resource(kind)?, namespace, &ListOptions::default()).await;
                let mut names: Vec<String> =
                    list.map_err(words_of)?.items.iter().map(|object| object.name().to_owned()).collect();
                names.sort();
                Ok(names.join("\n"))
            }
            ["events", kind, name, reasons] => self.events(&client, kind, name, reasons).await,
            ["sleep", seconds] => {
                let seconds = seconds.parse().map_err(|error| format!("{seconds}: {error}"))?;
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                Ok(String::new())
            }
            _ => Err(format!("no such command: {command}")),
        }
    }

    async fn apply(&mut self, client: &Client, file: &str) -> Answer {
        let text = self.files.get(file).ok_or_else(|| format!("there is no file {file}"))?;
        let documents = yaml::documents(text.as_bytes()).map_err(|error| error.to_string())?;
        let mut printed = Vec::new();
        for object in documents {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let gvk = GroupVersionKind::from_api_version(&text(&object["apiVersion"]), &text(&object["kind"]))
                .map_err(|error| error.to_string())?;
            let find = |it: &&client::DiscoveredResource| {
                (&it.resource.kind, &it.resource.version, &it.resource.group) == (&gvk.kind, &gvk.version, &gvk.group)
            };
            if !self.resources.iter().any(|it| find(&it)) {
                self.resources = client.discovery().await.map_err(words_of)?.resources;
            }
            let resource = self.resources.iter().find(find).map(|it| it.resource.clone());
            let resource = resource.ok_or_else(|| format!("no matches for kind {:?}", gvk.kind))?;
            let name = text(&object["metadata"]["name"]);
            let key = ObjectKey::namespaced(text(&object["metadata"]["namespace"]), name.as_str());
            let exists = client.get_opt(&resource, &key).await.map_err(words_of)?.is_some();
            let done = if exists {
                client
                    .patch(&resource, &key, &Patch::Merge(object), &PatchOptions::default())
                    .await
                    .map(|_| "configured")
            } else {
                client.create(&resource, &object).await.map(|_| "created")
            };
            printed.push(format!("{}/{name} {}", resource.kind.to_lowercase(), done.map_err(words_of)?));
        }
        Ok(printed.join("\n"))
    }

    async fn events(&self, client: &Client, kind: &str, name: &str, reasons: &str) -> Answer {
        let resource = self.resource(kind)?;
        let (about, kind) = (find(client, &resource, name).await?, resource.kind);
        let events = ApiResource::namespaced("", "v1", "Event", "events");
        let namespace = about.namespace().unwrap_or("default");
        let list = client.list(&events, Some(namespace), &ListOptions::default()).await.map_err(words_of)?;
        let trees: Vec<Value> = list.items.iter().filter_map(|event| event.to_value().ok()).collect();
        let mut found: Vec<&Value> = trees
            .iter()
            .filter(|event| event["involvedObject"]["kind"] == kind && event["involvedObject"]["name"] == about.name())
            .collect();
        // Times are in seconds, and several events have the same.
        let version = |event: &Value| at_path(event, "metadata.resourceVersion").parse::<u64>().unwrap_or_default();
        found.sort_by_key(|event| (event["lastTimestamp"].as_str().unwrap_or_default().to_owned(), version(event)));
        let line = |reason: &str| match found.iter().rfind(|event| event["reason"] == reason) {
            Some(event) => format!("{} {reason}: {}", at_path(event, "type"), at_path(event, "message")),
            None => format!("- {reason}"),
        };
        Ok(reasons.split(' ').map(line).collect::<Vec<_>>().join("\n"))
    }

    /// The normalized output and its exit code.
    async fn answer(&mut self, step: &Step) -> (String, i32) {
        let deadline = tokio::time::Instant::now() + if step.eventually { PATIENCE } else { Duration::ZERO };
        loop {
            let (output, code) = match self.run(&step.command).await {
                Ok(output) => (output, 0),
                Err(error) => (format!("Error: {error}"), 1),
            };
            let output = normalise(&output, &BTreeMap::new());
            if step.fits(NEWEST, &output, code) || tokio::time::Instant::now() >= deadline {
                return (output, code);
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    async fn play(&mut self, transcript: &mut Transcript) -> Vec<String> {
        let mut differences = Vec::new();
        for part in &mut transcript.parts {
            match part {
                Part::Comment(_) => {}
                Part::File { name, text } => drop(self.files.insert(name.clone(), text.clone())),
                Part::Step(step) => {
                    let (output, code) = self.answer(step).await;
                    if !step.fits(NEWEST, &output, code) {
                        let expected = step.expected.join("\n");
                        differences.push(format!(
                            "line {}: {}\n--- expected, exit code {}\n{expected}\n--- answered, exit code {code}\n{output}",
                            step.line, step.command, step.exit_code
                        ));
                        step.expected = output.lines().map(str::to_owned).collect();
                        step.exit_code = code;
                    }
                }
            }
        }
        differences
    }
}

fn words_of(error: client::Error) -> String {
    error.status().map_or_else(|| error.to_string(), |status| status.message.clone())
}

/// The object of a name that may end in `*`.
async fn read(client: &Client, resource: &ApiResource, name: &str) -> Result<Value, String> {
    let object = client.get(resource, &find(client, resource, name).await?).await.map_err(words_of)?;
    object.to_value().map_err(|error| error.to_string())
}

/// Resolves a name that may end in `*`.
async fn find(client: &Client, resource: &ApiResource, name: &str) -> Result<ObjectKey, String> {
    let Some(prefix) = name.strip_suffix('*') else { return Ok(key(name)) };
    let prefix = key(prefix);
    let list = client.list(resource, prefix.namespace(), &ListOptions::default()).await.map_err(words_of)?;
    let mut keys: Vec<ObjectKey> = list.items.iter().map(|object| object.key()).collect();
    keys.retain(|key| key.name().starts_with(prefix.name()));
    keys.into_iter().min().ok_or_else(|| format!("no {} begins with {name}", resource.plural))
}

fn key(name: &str) -> ObjectKey {
    match name.split_once('/') {
        Some((namespace, name)) => ObjectKey::namespaced(namespace, name),
        None => ObjectKey::cluster(name),
    }
}

/// The value at a path as text; `-` if absent.
fn at_path(tree: &Value, path: &str) -> String {
    match walk(tree, path) {
        Value::Null => "-".to_owned(),
        Value::String(text) => text,
        value => value.to_string(),
    }
}

fn walk(tree: &Value, path: &str) -> Value {
    if path.is_empty() {
        return tree.clone();
    }
    if let Some(rest) = path.strip_prefix('.') {
        return walk(tree, rest);
    }
    if let Some(rest) = path.strip_prefix("[\"") {
        let (name, rest) = rest.split_once("\"]").unwrap_or_else(|| panic!("{path}: no end of the name"));
        return walk(&tree[name], rest);
    }
    if let Some(rest) = path.strip_prefix('[') {
        let (index, rest) = rest.split_once(']').unwrap_or_else(|| panic!("{path}: no end of the index"));
        let list = tree.as_array().map_or(&[][..], Vec::as_slice);
        return match (index, index.split_once('=')) {
            ("*", _) => json!(list.iter().map(|item| walk(item, rest)).collect::<Vec<_>>()),
            (_, Some((name, expected_part))) => {
                let found = list.iter().find(|item| at_path(item, name) == expected_part);
                found.map_or(Value::Null, |item| walk(item, rest))
            }
            _ => index.parse().ok().and_then(|at: usize| list.get(at)).map_or(Value::Null, |item| walk(item, rest)),
        };
    }
    let end = path.find(['.', '[']).unwrap_or(path.len());
    walk(&tree[&path[..end]], &path[end..])
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios")
}

/// Plays one file; returns the number of differences, with their text.
fn play(path: &Path, update: bool) -> Vec<String> {
    let text = std::fs::read_to_string(path).expect("a readable file");
    let mut transcript = Transcript::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let differences = runtime.expect("a runtime").block_on(async {
        let mut session = Session::start(&transcript.server).await;
        session.play(&mut transcript).await
    });
    if update && !differences.is_empty() {
        std::fs::write(path, transcript.render()).expect("the sources are writable");
    }
    differences.into_iter().map(|difference| format!("{name} {difference}")).collect()
}

#[test]
fn every_scenario_plays() {
    let update = std::env::var_os("UPDATE_SCENARIOS").is_some();
    let selected = std::env::var("SCENARIO").unwrap_or_default();
    let files = std::fs::read_dir(directory()).expect("the directory of scenarios").flatten();
    let mut paths: Vec<PathBuf> = files.map(|file| file.path()).collect();
    paths.retain(|path| path.to_string_lossy().contains(&selected));
    paths.sort();
    assert!(!paths.is_empty(), "no scenario has {selected:?} in its name");
    let queue = Mutex::new(VecDeque::from(paths));
    let differences: Mutex<Vec<String>> = Mutex::default();
    let work = || {
        loop {
            let Some(path) = queue.lock().expect("no panic").pop_front() else { return };
            let found = play(&path, update);
            differences.lock().expect("no panic").extend(found);
        }
    };
    // A scenario is CPU-bound, because its clock is virtual: one for each of two cores.
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(work))));
    let differences = differences.into_inner().expect("no panic");
    assert!(differences.is_empty(), "{} steps differ:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn paths_lead_to_values() {
    let tree = json!({"a": {"b/c": [{"name": "x", "n": 1}, {"name": "y", "n": 2}]}, "t": "text"});
    for (path, expected) in [
        ("t", "text"),
        ("a[\"b/c\"][1].n", "2"),
        ("a[\"b/c\"][*].n", "[1,2]"),
        ("a[\"b/c\"][name=y].n", "2"),
        ("a[\"b/c\"][7].n", "-"),
        ("a.z", "-"),
    ] {
        assert_eq!(at_path(&tree, path), expected, "{path}");
    }
}
