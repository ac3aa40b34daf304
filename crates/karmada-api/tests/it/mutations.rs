//! Ten thousand damaged objects: admission handles all of them without a panic, and accepts none that violates the
//! rules. The rules are implemented here a second time, independently.

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::merge_patch;
use karmada_api::admission::Operation;
use serde_json::{Value, json};

use crate::samples::{admit, kinds, read};

/// xorshift64*: the same mutations in every run.
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

/// Pointers to all values in a tree.
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

/// One to three changes: a value replaced or removed, an item duplicated, a part copied from elsewhere.
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

/// Whether a text can be the name or the value of a label; an independent implementation of the rule.
fn is_word(text: &str, rest: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    (1..=63).contains(&text.len())
        && edge(text.chars().next())
        && edge(text.chars().last())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || rest.contains(c))
}

fn is_label_key(key: &str) -> bool {
    match key.split('/').collect::<Vec<_>>()[..] {
        [name] => is_word(name, "-_."),
        [domain, name] => is_word(name, "-_.") && domain.len() <= 253 && domain.split('.').all(is_label),
        _ => false,
    }
}

fn is_label(text: &str) -> bool {
    is_word(text, "-") && !text.contains(|c: char| c.is_ascii_uppercase())
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn twice<T: PartialEq>(items: &[T]) -> bool {
    items.iter().enumerate().any(|(at, item)| items[..at].contains(item))
}

/// A field selector with an unknown key, or an operator other than In and NotIn.
fn is_bad_filter(affinity: &Value) -> bool {
    each(affinity, "/fieldSelector/matchExpressions").iter().any(|it| {
        !["provider", "region", "zone"].contains(&text(it, "key")) || !["In", "NotIn"].contains(&text(it, "operator"))
    })
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(1)
}

type Broken = Vec<(bool, &'static str)>;

fn of_policy(kind: &str, object: &Value) -> Broken {
    let spec = &object["spec"];
    let (placement, application) = (&spec["placement"], &spec["failover"]["application"]);
    let spread = each(placement, "/spreadConstraints");
    let fields: Vec<&str> = spread.iter().filter_map(|it| it["spreadByField"].as_str()).collect();
    let gracefully = application["purgeMode"] == "Gracefully";
    let namespace = &object["metadata"]["namespace"];
    let selectors = each(spec, "/resourceSelectors");
    let terms = each(placement, "/clusterAffinities");
    let names: Vec<&str> = terms.iter().map(|it| text(it, "affinityName")).collect();
    let tiers = || terms.iter().flat_map(|term| each(term, "/overflowAffinities").iter().map(move |tier| (term, tier)));
    let strategy = &placement["replicaScheduling"];
    let divides = strategy["replicaSchedulingType"] == "Divided"
        && (strategy["replicaDivisionPreference"] == "Aggregated"
            || (strategy["replicaDivisionPreference"] == "Weighted"
                && is_set(&strategy["weightPreference"]["dynamicWeight"])));
    let groups = ["affinity", "antiAffinity"].map(|it| &placement["workloadAffinity"][it]["groupByLabelKey"]);
    let aliases =
        ["application", "cluster"].iter().flat_map(|it| each(&spec["failover"][*it], "/statePreservation/rules"));
    vec![
        (is_set(&placement["clusterAffinity"]) && is_set(&placement["clusterAffinities"]), "PP-V4"),
        (tiers().next().is_some() && !divides, "PP-V5"),
        (
            is_bad_filter(&placement["clusterAffinity"])
                || terms.iter().any(is_bad_filter)
                || tiers().any(|(_, tier)| is_bad_filter(tier)),
            "PP-V6 PP-V7",
        ),
        (names.iter().any(|name| !is_label_key(name)), "PP-V8"),
        (twice(&names), "PP-V9"),
        (tiers().any(|(_, tier)| !is_label_key(text(tier, "affinityName"))), "PP-V11"),
        (tiers().any(|(term, tier)| tier["affinityName"] == term["affinityName"]), "PP-V12"),
        (spread.iter().any(|it| is_set(&it["spreadByField"]) && !text(it, "spreadByLabel").is_empty()), "PP-V13"),
        (spread.iter().any(|it| number(&it["minGroups"]) < 0), "PP-V14"),
        (spread.iter().any(|it| number(&it["maxGroups"]) < 0), "PP-V15"),
        (
            spread.iter().any(|it| {
                let most = it["maxGroups"].as_i64().unwrap_or_default();
                most > 0 && most < number(&it["minGroups"])
            }),
            "PP-V16",
        ),
        (twice(&fields), "PP-V17"),
        (!fields.is_empty() && !fields.contains(&"cluster"), "PP-V18"),
        (groups.iter().any(|it| it.as_str().is_some_and(|key| !is_label_key(key))), "PP-V19"),
        (is_set(groups[0]) && groups[0] == groups[1], "PP-V20"),
        (each(placement, "/clusterTolerations").iter().any(|it| it["operator"] == "Gt"), "PP-V21"),
        (is_set(application) && spec["propagateDeps"] != true, "PP-V22"),
        (number(&application["decisionConditions"]["tolerationSeconds"]) < 0, "PP-V23"),
        (is_set(application) && !gracefully && is_set(&application["gracePeriodSeconds"]), "PP-V24"),
        (
            is_set(application) && gracefully && !is_set(&application["gracePeriodSeconds"]),
            "never, for it is filled in",
        ),
        (number(&application["gracePeriodSeconds"]) <= 0, "PP-V26"),
        (aliases.into_iter().any(|it| !is_label_key(text(it, "aliasLabelName"))), "PP-V27"),
        (selectors.is_empty(), "schema"),
        (kind == "PropagationPolicy" && selectors.iter().any(|it| it["namespace"] != *namespace), "PP-V28"),
        (spec["preemption"] == "Always" && selectors.iter().any(|it| text(it, "name").is_empty()), "PP-V29"),
        (
            spec["suspension"]["dispatching"] == true
                && !each(spec, "/suspension/dispatchingOnClusters/clusterNames").is_empty(),
            "PP-V30",
        ),
    ]
}

fn of_overrides(kind: &str, object: &Value) -> Broken {
    let spec = &object["spec"];
    let rules = each(spec, "/overrideRules");
    let all = |list: &'static str| rules.iter().flat_map(move |it| each(&it["overriders"], list));
    let operations = || all("/fieldOverrider").flat_map(|it| each(it, "/json").iter().chain(each(it, "/yaml")));
    let is_pointer = |text: &str| text.is_empty() || text.starts_with('/');
    let pairs = |list: &'static str| {
        all(list)
            .flat_map(|it| it["value"].as_object())
            .flat_map(|map| map.iter().map(|(key, value)| (key.clone(), value.clone())))
    };
    let namespace = &object["metadata"]["namespace"];
    vec![
        (is_bad_filter(&spec["targetCluster"]), "OP-V1"),
        (is_set(&spec["overrideRules"]) && is_set(&spec["targetCluster"]), "OP-V2"),
        (is_set(&spec["overrideRules"]) && !each(&spec["overriders"], "/plaintext").is_empty(), "OP-V3"),
        (pairs("/annotationsOverrider").any(|(key, _)| !is_label_key(&key.to_lowercase())), "OP-V4"),
        (
            pairs("/labelsOverrider").any(|(key, value)| {
                let value = value.as_str().unwrap_or_default();
                !is_label_key(&key) || !(value.is_empty() || is_word(value, "-_."))
            }),
            "OP-V5",
        ),
        (all("/imageOverrider").any(|it| !is_pointer(text(&it["predicate"], "path"))), "OP-V6"),
        (all("/fieldOverrider").any(|it| each(it, "/json").is_empty() == each(it, "/yaml").is_empty()), "OP-V7 OP-V8"),
        (all("/fieldOverrider").any(|it| !is_pointer(text(it, "fieldPath"))), "OP-V9"),
        (operations().any(|it| !is_pointer(text(it, "subPath"))), "OP-V10"),
        (operations().any(|it| it["operator"] != "remove" && !is_set(&it["value"])), "OP-V11"),
        (operations().any(|it| it["operator"] == "remove" && is_set(&it["value"])), "OP-V12"),
        (rules.iter().any(|it| is_bad_filter(&it["targetCluster"])), "OP-V13"),
        (
            kind == "OverridePolicy" && each(spec, "/resourceSelectors").iter().any(|it| it["namespace"] != *namespace),
            "OP-V14",
        ),
    ]
}

fn of_scaling(object: &Value) -> Broken {
    let spec = &object["spec"];
    let metrics = each(spec, "/metrics");
    let directions = ["scaleUp", "scaleDown"].map(|it| &spec["behavior"][it]);
    let policies = || directions.iter().flat_map(|it| each(it, "/policies"));
    let target = &spec["scaleTargetRef"];
    vec![
        (number(&spec["minReplicas"]) < 1, "FHPA-V1"),
        (spec["maxReplicas"].as_i64() < spec["minReplicas"].as_i64(), "FHPA-V3"),
        (text(target, "kind").is_empty() || text(target, "name").is_empty(), "FHPA-V4"),
        (["kind", "name"].iter().any(|it| text(target, it).contains('/') || text(target, it) == ".."), "FHPA-V5"),
        (
            metrics.iter().any(|it| !["ContainerResource", "Object", "Pods", "Resource"].contains(&text(it, "type"))),
            "FHPA-V6 FHPA-V7",
        ),
        (
            metrics.iter().any(|it| {
                [("Resource", "resource"), ("Pods", "pods")]
                    .iter()
                    .any(|(type_, source)| it["type"] == *type_ && !is_set(&it[*source]))
            }),
            "FHPA-V8",
        ),
        (metrics.is_empty(), "never, for it is filled in"),
        (directions.iter().any(|it| !(0..=3600).contains(&number(&it["stabilizationWindowSeconds"]))), "FHPA-V23"),
        (
            directions.iter().any(|it| {
                is_set(&it["selectPolicy"]) && !["Disabled", "Max", "Min"].contains(&text(it, "selectPolicy"))
            }),
            "FHPA-V24",
        ),
        (directions.iter().any(|it| is_set(it) && each(it, "/policies").is_empty()), "FHPA-V25"),
        (policies().any(|it| !["Percent", "Pods"].contains(&text(it, "type"))), "FHPA-V26"),
        (
            policies().any(|it| number(&it["value"]) <= 0 || !(1..=1800).contains(&number(&it["periodSeconds"]))),
            "FHPA-V27",
        ),
    ]
}

fn of_schedules(object: &Value) -> Broken {
    let spec = &object["spec"];
    let (target, rules) = (&spec["scaleTargetRef"], each(spec, "/rules"));
    let of_hpa = target["apiVersion"] == "autoscaling.karmada.io/v1alpha1";
    let names: Vec<&str> = rules.iter().map(|it| text(it, "name")).collect();
    let most = |it: &Value| it["targetMaxReplicas"].as_i64().unwrap_or(i64::from(i32::MAX));
    vec![
        (of_hpa && target["kind"] != "FederatedHPA", "CRON-V2"),
        (text(target, "name").is_empty() || text(target, "name").contains('/'), "CRON-V3"),
        (twice(&names), "CRON-V4"),
        (
            rules.iter().any(|it| {
                let fields = text(it, "schedule").split_whitespace().count();
                text(it, "schedule") == "60 * * * *" || (fields < 5 && !text(it, "schedule").starts_with('@'))
            }),
            "CRON-V5",
        ),
        (rules.iter().any(|it| it["timeZone"] == "Moon/Base"), "CRON-V6"),
        (
            of_hpa && rules.iter().any(|it| !is_set(&it["targetMinReplicas"]) && !is_set(&it["targetMaxReplicas"])),
            "CRON-V7",
        ),
        (of_hpa && rules.iter().any(|it| number(&it["targetMinReplicas"]) <= 0), "CRON-V8"),
        (of_hpa && rules.iter().any(|it| number(&it["targetMaxReplicas"]) <= 0), "CRON-V9"),
        (of_hpa && rules.iter().any(|it| most(it) > 0 && most(it) < number(&it["targetMinReplicas"])), "CRON-V10"),
        (!of_hpa && rules.iter().any(|it| !is_set(&it["targetReplicas"])), "CRON-V11"),
        (!of_hpa && rules.iter().any(|it| number(&it["targetReplicas"]) < 0), "CRON-V12"),
    ]
}

fn of_services(object: &Value) -> Broken {
    let spec = &object["spec"];
    let ports = each(spec, "/ports");
    let names: Vec<&str> = ports.iter().map(|it| text(it, "name")).filter(|name| !name.is_empty()).collect();
    let types = each(spec, "/types");
    let clusters =
        |list: &str| each(spec, list).iter().any(|it| !is_label(text(it, "name")) || text(it, "name").len() > 48);
    vec![
        (names.iter().any(|name| !is_label(name)), "MCS-V2"),
        (twice(&names), "MCS-V3"),
        (ports.iter().any(|it| !(1..=65535).contains(&number(&it["port"]))), "MCS-V4"),
        (types.iter().any(|it| it != "CrossCluster" && it != "LoadBalancer"), "MCS-V5"),
        (types.iter().any(|it| *it != types[0]), "MCS-V6"),
        (clusters("/providerClusters"), "MCS-V7"),
        (clusters("/consumerClusters"), "MCS-V8"),
    ]
}

fn of_ingresses(object: &Value) -> Broken {
    let spec = &object["spec"];
    let rules = each(spec, "/rules");
    let paths = || rules.iter().flat_map(|it| each(it, "/http/paths"));
    let absolute = |it: &Value| text(it, "path").starts_with('/');
    let backend = &spec["defaultBackend"];
    vec![
        (rules.is_empty() && !is_set(backend), "MCI-V1"),
        (is_set(backend) && is_set(&backend["service"]) && is_set(&backend["resource"]), "MCI-V2"),
        (is_set(backend) && !is_set(&backend["service"]) && !is_set(&backend["resource"]), "MCI-V3"),
        (is_set(&backend["service"]) && !is_label(text(&backend["service"], "name")), "MCI-V4"),
        (rules.iter().any(|it| text(it, "host").parse::<std::net::Ipv4Addr>().is_ok()), "MCI-V9"),
        (
            rules.iter().any(|it| text(it, "host").contains([' ', '_', 'A']) || text(it, "host").contains(".*")),
            "MCI-V10",
        ),
        (rules.iter().any(|it| is_set(&it["http"]) && each(it, "/http/paths").is_empty()), "MCI-V11"),
        (paths().any(|it| !["Exact", "ImplementationSpecific", "Prefix"].contains(&text(it, "pathType"))), "MCI-V13"),
        (paths().any(|it| it["pathType"] == "Prefix" && !absolute(it)), "MCI-V14"),
        (is_set(&spec["ingressClassName"]) && text(spec, "ingressClassName").contains([' ', '/', 'A']), "MCI-V19"),
    ]
}

fn of_hooks(object: &Value) -> Broken {
    let hooks = each(object, "/webhooks");
    let names: Vec<&str> = hooks.iter().map(|it| text(it, "name")).collect();
    let rules = || hooks.iter().flat_map(|it| each(it, "/rules"));
    let mixes_wildcard = |list: &'static str| {
        rules()
            .any(|it| each(it, list).is_empty() || (each(it, list).len() > 1 && each(it, list).contains(&json!("*"))))
    };
    let versions = |it: &Value| each(it, "/interpreterContextVersions").to_vec();
    vec![
        (names.iter().any(|name| !name.contains('.') || name.contains(' ')), "RIWC-V1"),
        (twice(&names), "RIWC-V2"),
        (mixes_wildcard("/operations"), "RIWC-V3 RIWC-V4"),
        (rules().any(|it| each(it, "/operations").iter().any(|it| it == "" || it == "In" || it == "Prune")), "RIWC-V5"),
        (mixes_wildcard("/apiGroups"), "RIWC-V6"),
        (mixes_wildcard("/apiVersions") || rules().any(|it| each(it, "/apiVersions").contains(&json!(""))), "RIWC-V7"),
        (mixes_wildcard("/kinds") || rules().any(|it| each(it, "/kinds").contains(&json!(""))), "RIWC-V8"),
        (hooks.iter().any(|it| !(1..=30).contains(&number(&it["timeoutSeconds"]))), "RIWC-V9"),
        (
            hooks.iter().any(|it| is_set(&it["clientConfig"]["url"]) == is_set(&it["clientConfig"]["service"])),
            "RIWC-V10",
        ),
        (
            hooks.iter().any(|it| it["clientConfig"]["url"].as_str().is_some_and(|it| !it.starts_with("https://"))),
            "RIWC-V11",
        ),
        (hooks.iter().any(|it| twice(&versions(it))), "RIWC-V14"),
        (hooks.iter().any(|it| !versions(it).contains(&json!("v1alpha1"))), "RIWC-V13 RIWC-V16"),
    ]
}

fn of_quotas(object: &Value) -> Broken {
    let spec = &object["spec"];
    let negative = |it: &Value| {
        it.to_string().trim_matches('"').starts_with('-')
            && !it.to_string().trim_matches(['"', '-', '0', 'm']).is_empty()
    };
    let overall = spec["overall"].as_object();
    let assignments = each(spec, "/staticAssignments");
    let assigned =
        |it: &Value| it["hard"].as_object().into_iter().flat_map(|map| map.keys().cloned()).collect::<Vec<_>>();
    vec![
        (
            overall.is_some_and(|all| all.values().any(negative))
                || assignments.iter().flat_map(|it| it["hard"].as_object()).flat_map(|it| it.values()).any(negative),
            "FRQ-V5",
        ),
        (assignments.iter().any(|it| !is_label(text(it, "clusterName"))), "FRQ-V7"),
        (
            assignments.iter().flat_map(assigned).any(|name| overall.is_none_or(|all| !all.contains_key(&name))),
            "FRQ-V9",
        ),
    ]
}

fn broken(kind: &str, object: &Value) -> Broken {
    let spec = &object["spec"];
    match kind {
        "PropagationPolicy" | "ClusterPropagationPolicy" => of_policy(kind, object),
        "OverridePolicy" | "ClusterOverridePolicy" => of_overrides(kind, object),
        "ClusterTaintPolicy" => {
            let taints = each(spec, "/taints");
            let keys: Vec<_> = taints.iter().map(|it| (text(it, "key"), text(it, "effect"))).collect();
            vec![(taints.iter().any(|it| it["effect"] == "NoExecute"), "CTP-V1"), (twice(&keys), "CTP-V2")]
        }
        "FederatedResourceQuota" => of_quotas(object),
        "FederatedHPA" => of_scaling(object),
        "CronFederatedHPA" => of_schedules(object),
        "MultiClusterService" => of_services(object),
        "MultiClusterIngress" => of_ingresses(object),
        "ResourceInterpreterWebhookConfiguration" => of_hooks(object),
        "ResourceBinding" => {
            let names: Vec<&str> = each(spec, "/components").iter().map(|it| text(it, "name")).collect();
            vec![(names.iter().any(|name| name.is_empty()), "RB-V3"), (twice(&names), "RB-V4")]
        }
        _ => vec![],
    }
}

/// The violations of an object that must never be stored.
fn forbidden(kind: &str, object: &Value) -> Vec<&'static str> {
    broken(kind, object).into_iter().filter(|(broken, _)| *broken).map(|(_, what)| what).collect()
}

#[test]
fn ten_thousand_damaged_objects() {
    let (kinds, pool, mut random) = (kinds(), pool(), Random(20_261_121));
    let samples: Vec<(&str, Value)> = kinds.keys().map(|name| (name.as_str(), read(name))).collect();
    let (mut accepted, mut refused) = (0, 0);
    // Objects that violate exactly one rule and were rejected: that rule alone rejected them.
    let mut caught: BTreeMap<&str, usize> = BTreeMap::new();
    let all: BTreeSet<&str> =
        samples.iter().flat_map(|(name, sample)| broken(&kinds[*name].kind, sample)).map(|(_, rule)| rule).collect();
    let breaking: Vec<Vec<Value>> = samples.iter().map(|(name, _)| crate::rules::breaking(name)).collect();
    for round in 0..10_000 {
        let (turn, which) = (round / samples.len(), round % samples.len());
        let (name, sample) = &samples[which];
        let kind = &kinds[*name];
        let mut object = sample.clone();
        let mut old = sample.clone();
        let update = random.below(3) == 0 && admit(kind, Operation::Create, None, &mut old).is_ok();
        if update {
            object = old.clone();
        }
        // Every other object violates a rule first, and half of these have no other change.
        let known = &breaking[which];
        if turn % 2 == 0 && !known.is_empty() {
            merge_patch::apply(&mut object, &known[turn / 2 % known.len()]);
        }
        if turn % 2 == 1 || turn / 2 / known.len().max(1) % 2 == 1 {
            damage(&mut object, &mut random, &pool);
        }
        // A server takes name and namespace from the path, and rejects a document with others.
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
            Err(why) => {
                refused += 1;
                let is_rule = !["schema: ", "json: "].iter().any(|start| why.starts_with(start));
                if let ([rule], true) = (forbidden(&kind.kind, &object).as_slice(), is_rule) {
                    *caught.entry(rule).or_default() += 1;
                }
            }
            Ok(()) => {
                accepted += 1;
                let broken = forbidden(&kind.kind, &object);
                assert!(broken.is_empty(), "round {round}: {broken:?}: {sent}\nstored as {object}");
            }
        }
        // Validating rules must handle input that no schema has validated.
        let _ = crate::samples::validate(kind, operation, update.then_some(&old), &sent);
        let _ = crate::samples::validate(kind, Operation::Delete, Some(&old), &sent);
    }
    assert!(accepted > 1000 && refused > 1000, "{accepted} accepted, {refused} refused");
    // Rules that the schema implements, or whose values are defaulted, are not among them.
    let missed: Vec<&&str> = all.iter().filter(|rule| !caught.contains_key(**rule) && rule.contains("-V")).collect();
    assert!(missed.is_empty(), "no damaged object was refused by these alone: {missed:?}; by others: {caught:?}");
}
