//! Ten thousand damaged objects: admission bears them all, and lets none through that holds what the rules forbid. What
//! is forbidden is said here a second time, in another way than the rules say it.

use karmada_api::admission::Operation;
use serde_json::{Value, json};

use crate::samples::{admit, kinds, read};

/// xorshift64*: the same mutations at every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % bound
    }
}

fn pool() -> Vec<Value> {
    let texts = [
        "",
        "a b",
        "A",
        "..",
        "/",
        "a/b/c",
        "-",
        "é",
        "*",
        "zone",
        "city",
        "In",
        "Exists",
        "Gt",
        "Never",
        "Directly",
        "Gracefully",
        "Divided",
        "Weighted",
        "Aggregated",
        "cluster",
        "region",
        "1.2.3.4",
        "60 * * * *",
        "@daily",
        "Moon/Base",
        "-1",
        "0",
        "500m",
        "1e400",
        "NaN",
        "9223372036854775808",
        "CrossCluster",
        "LoadBalancer",
        "External",
        "Pods",
        "Always",
        "remove",
        "add",
    ];
    let mut pool: Vec<Value> = texts.into_iter().map(Value::from).collect();
    pool.extend([json!(null), json!(true), json!(false), json!(-1), json!(0), json!(1), json!(601), json!(65536)]);
    pool.extend([
        json!(i64::MAX),
        json!(i64::MIN),
        json!(0.5),
        json!([]),
        json!({}),
        json!([null]),
        json!([[]]),
        json!({"a": {}}),
    ]);
    pool.push(json!("x".repeat(300)));
    pool
}

/// Pointers of everything in a tree.
fn places(value: &Value, at: &str, out: &mut Vec<String>) {
    let mut visit = |key: &str, child: &Value| {
        let at = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
        out.push(at.clone());
        places(child, &at, out);
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(key, child)| visit(key, child)),
        Value::Array(list) => list.iter().enumerate().for_each(|(index, child)| visit(&index.to_string(), child)),
        _ => {}
    }
}

/// One to three changes: a value replaced or taken away, an item doubled, a part moved in from elsewhere.
fn damage(object: &mut Value, random: &mut Random, pool: &[Value]) {
    for _ in 0..=random.below(3) {
        let mut all = Vec::new();
        places(object, "", &mut all);
        let at = all[random.below(all.len())].clone();
        let moved = object.pointer(&all[random.below(all.len())]).cloned().unwrap_or_default();
        let change = random.below(6);
        let Some(value) = object.pointer_mut(&at) else { continue };
        match (change, value) {
            (0, value) => *value = moved,
            (1, Value::Array(list)) if !list.is_empty() => {
                let item = list[random.below(list.len())].clone();
                list.push(item);
            }
            (2, Value::Object(map)) => {
                let key = map.keys().nth(random.below(map.len().max(1))).cloned();
                key.map(|key| map.remove(&key));
            }
            (3, Value::Number(number)) => {
                *number = (number.as_i64().unwrap_or_default().wrapping_neg().wrapping_sub(1)).into()
            }
            (_, value) => *value = pool[random.below(pool.len())].clone(),
        }
    }
}

fn each<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn is_set(value: &Value) -> bool {
    !value.is_null()
}

/// What must never be stored, whatever was sent.
fn forbidden(kind: &str, object: &Value) -> Option<&'static str> {
    let spec = &object["spec"];
    let number = |value: &Value| value.as_i64().unwrap_or(1);
    let broken: &[(bool, &'static str)] = &match kind {
        "PropagationPolicy" | "ClusterPropagationPolicy" => {
            let placement = &spec["placement"];
            let application = &spec["failover"]["application"];
            let spread = each(placement, "/spreadConstraints");
            let fields: Vec<&str> = spread.iter().filter_map(|it| it["spreadByField"].as_str()).collect();
            let gracefully = application["purgeMode"] == "Gracefully";
            let namespace = &object["metadata"]["namespace"];
            vec![
                (is_set(&placement["clusterAffinity"]) && is_set(&placement["clusterAffinities"]), "both affinities"),
                (
                    spread.iter().any(|it| number(&it["minGroups"]) < 0 || number(&it["maxGroups"]) < 0),
                    "negative groups",
                ),
                (!fields.is_empty() && !fields.contains(&"cluster"), "no cluster constraint"),
                (fields.iter().any(|it| fields.iter().filter(|other| *other == it).count() > 1), "a field twice"),
                (is_set(application) && spec["propagateDeps"] != true, "failover without dependencies"),
                (
                    is_set(application) && gracefully != is_set(&application["gracePeriodSeconds"]),
                    "grace and purge mode",
                ),
                (number(&application["gracePeriodSeconds"]) <= 0, "no grace"),
                (each(placement, "/clusterTolerations").iter().any(|it| it["operator"] == "Gt"), "operator Gt"),
                (each(spec, "/resourceSelectors").is_empty(), "no selector"),
                (
                    kind == "PropagationPolicy"
                        && each(spec, "/resourceSelectors").iter().any(|it| it["namespace"] != *namespace),
                    "another namespace",
                ),
                (
                    spec["preemption"] == "Always"
                        && each(spec, "/resourceSelectors")
                            .iter()
                            .any(|it| it["name"].as_str().is_none_or(str::is_empty)),
                    "preemption without names",
                ),
                (
                    spec["suspension"]["dispatching"] == true
                        && !each(spec, "/suspension/dispatchingOnClusters/clusterNames").is_empty(),
                    "both suspensions",
                ),
            ]
        }
        "OverridePolicy" | "ClusterOverridePolicy" => vec![
            (is_set(&spec["overrideRules"]) && is_set(&spec["targetCluster"]), "both forms"),
            (
                each(spec, "/overrideRules").iter().flat_map(|it| each(it, "/overriders/fieldOverrider")).any(|it| {
                    each(it, "/json").is_empty() == each(it, "/yaml").is_empty()
                        || it["fieldPath"].as_str().is_some_and(|path| !path.is_empty() && !path.starts_with('/'))
                }),
                "field overriders",
            ),
        ],
        "ClusterTaintPolicy" => vec![(each(spec, "/taints").iter().any(|it| it["effect"] == "NoExecute"), "NoExecute")],
        "FederatedResourceQuota" => vec![(
            spec["overall"].as_object().is_none_or(|all| {
                all.values().any(|it| {
                    it.to_string().trim_matches('"').starts_with('-')
                        && !it.to_string().trim_matches(['"', '-', '0', 'm']).is_empty()
                })
            }),
            "negative amounts",
        )],
        "FederatedHPA" => vec![
            (number(&spec["minReplicas"]) < 1 || spec["maxReplicas"].as_i64() < spec["minReplicas"].as_i64(), "bounds"),
            (each(spec, "/metrics").iter().any(|it| it["type"] == "External"), "External"),
            (each(spec, "/metrics").is_empty(), "no metric"),
        ],
        "CronFederatedHPA" => vec![(
            each(spec, "/rules").iter().any(|it| {
                number(&it["targetMinReplicas"]) <= 0
                    || number(&it["targetMaxReplicas"]) <= 0
                    || it["schedule"] == "60 * * * *"
                    || it["timeZone"] == "Moon/Base"
            }),
            "rules",
        )],
        "MultiClusterService" => vec![
            (each(spec, "/ports").iter().any(|it| !(1..=65535).contains(&number(&it["port"]))), "ports"),
            (each(spec, "/types").iter().any(|it| it != "CrossCluster" && it != "LoadBalancer"), "types"),
        ],
        "MultiClusterIngress" => vec![
            (each(spec, "/rules").is_empty() && !is_set(&spec["defaultBackend"]), "nothing served"),
            (each(spec, "/rules").iter().any(|it| it["host"] == "1.2.3.4"), "an address as host"),
        ],
        "ResourceInterpreterWebhookConfiguration" => vec![(
            each(object, "/webhooks").iter().any(|it| {
                is_set(&it["clientConfig"]["url"]) == is_set(&it["clientConfig"]["service"])
                    || !(1..=30).contains(&number(&it["timeoutSeconds"]))
                    || !each(it, "/interpreterContextVersions").contains(&json!("v1alpha1"))
            }),
            "webhooks",
        )],
        "ResourceBinding" => vec![(
            each(spec, "/components").iter().any(|it| it["name"].as_str().is_none_or(str::is_empty)),
            "a component without a name",
        )],
        _ => vec![],
    };
    broken.iter().find(|(broken, _)| *broken).map(|(_, what)| *what)
}

#[test]
fn ten_thousand_damaged_objects() {
    let (kinds, pool, mut random) = (kinds(), pool(), Random(20_261_121));
    let samples: Vec<(&str, Value)> = kinds.keys().map(|name| (name.as_str(), read(name))).collect();
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..10_000 {
        let (name, sample) = &samples[round % samples.len()];
        let kind = &kinds[*name];
        let mut object = sample.clone();
        let mut old = sample.clone();
        let update = random.below(3) == 0 && admit(kind, Operation::Create, None, &mut old).is_ok();
        if update {
            object = old.clone();
        }
        damage(&mut object, &mut random, &pool);
        // A server takes name and namespace from the path, and refuses a document that says otherwise.
        let metadata = &sample["metadata"];
        if !object["metadata"].is_object() {
            object["metadata"] = metadata.clone();
        }
        for key in ["name", "namespace"].into_iter().filter(|key| !metadata[*key].is_null()) {
            object["metadata"][key] = metadata[key].clone();
        }
        let sent = object.clone();
        let operation = if update { Operation::Update } else { Operation::Create };
        match admit(kind, operation, update.then_some(&old), &mut object) {
            Err(_) => refused += 1,
            Ok(()) => {
                accepted += 1;
                assert_eq!(forbidden(&kind.kind, &object), None, "round {round}: {sent}\nstored as {object}");
            }
        }
        // Validating rules alone bear what no schema has seen.
        let _ = crate::samples::validate(kind, operation, update.then_some(&old), &sent);
        let _ = crate::samples::validate(kind, Operation::Delete, Some(&old), &sent);
    }
    assert!(accepted > 1000 && refused > 1000, "{accepted} accepted, {refused} refused");
}
