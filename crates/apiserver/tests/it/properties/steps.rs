//! The steps of a run: one random verb, or a few concurrent ones.

use serde_json::{Value, json};

use super::bodies::{KINDS, Kind, join};
use super::run::{Answer, Run};
use super::watchers::revision;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A request that is ready to be sent.
pub(super) struct Plan {
    /// The kind of step, for counting outcomes.
    step: &'static str,
    kind: &'static Kind,
    method: &'static str,
    path: String,
    content_type: &'static str,
    body: Value,
}

impl Kind {
    pub(super) fn path(&self, namespace: &str, name: &str) -> String {
        match (self.namespaced, name) {
            (true, "") => format!("{}/namespaces/{namespace}/{}", self.prefix, self.plural),
            (true, name) => format!("{}/namespaces/{namespace}/{}/{name}", self.prefix, self.plural),
            (false, "") => format!("{}/{}", self.prefix, self.plural),
            (false, name) => format!("{}/{}/{name}", self.prefix, self.plural),
        }
    }
}

impl Run {
    pub(super) async fn step(&mut self) {
        match self.dice.below(100) {
            0..5 => self.open_watch().await,
            5..8 => self.check_reads().await,
            8..12 => self.check_no_change().await,
            12..15 => self.check_dry_run().await,
            // Time passes for bookmarks, which are sent once a minute, deadlines, and ages in tables.
            15 => tokio::time::sleep(std::time::Duration::from_secs(61)).await,
            16..22 => self.check().await,
            22..32 => self.write_at_once().await,
            _ => self.write().await,
        }
    }

    pub(super) async fn write(&mut self) {
        let plan = self.plan();
        let answer = self.send(plan.method, &plan.path, plan.content_type, &plan.body).await;
        self.note(&plan, answer);
    }

    /// Writes that race with each other.
    async fn write_at_once(&mut self) {
        let plans: Vec<Plan> = (0..2 + self.dice.below(4)).map(|_| self.plan()).collect();
        let sent = plans.iter().map(|plan| self.send(plan.method, &plan.path, plan.content_type, &plan.body));
        let answers = futures::future::join_all(sent).await;
        for (plan, answer) in plans.iter().zip(answers) {
            self.note(plan, answer);
        }
    }

    fn note(&mut self, plan: &Plan, answer: Answer) {
        *self.outcomes.entry((plan.step, answer.code)).or_default() += 1;
        if answer.code >= 400 {
            assert_eq!(answer.body["kind"], "Status", "{}: {}", answer.what, answer.body);
            assert_eq!(answer.body["code"], answer.code, "{}: {}", answer.what, answer.body);
        } else if answer.body["kind"] == plan.kind.kind && !plan.path.contains("dryRun") {
            self.written.push((plan.kind.plural, answer));
        }
    }

    /// A dry run responds like the real request, without effect.
    async fn check_dry_run(&mut self) {
        self.check().await;
        let mut plan = self.plan();
        let all = super::watchers::Scope::default().url(plan.kind);
        let before = self.list(&all, super::watchers::Form::Whole).await;
        if plan.method == "DELETE" && !plan.body.is_null() {
            plan.body["dryRun"] = json!(["All"]);
        }
        plan.path += if plan.path.contains('?') { "&dryRun=All" } else { "?dryRun=All" };
        let answer = self.send(plan.method, &plan.path, plan.content_type, &plan.body).await;
        super::run::quiet().await;
        let after = self.list(&all, super::watchers::Form::Whole).await;
        assert_eq!(before, after, "{} changed something", answer.what);
        self.note(&plan, answer);
    }

    /// One random request, from the objects known at the last quiet point.
    fn plan(&self) -> Plan {
        let dice = &self.dice;
        let kind: &'static Kind = dice.pick(KINDS);
        let (namespace, name) = (*dice.pick(&["one", "two"]), *dice.pick(&["a", "b", "c", "d", "e"]));
        let key = if kind.namespaced { format!("{namespace}/{name}") } else { format!("/{name}") };
        let current = self.current(kind, &key);
        let path = kind.path(namespace, name);
        let request =
            |step, method, path: String, content_type, body| Plan { step, kind, method, path, content_type, body };
        let Some(mut current) = current else { return self.plan_new(kind, namespace, name) };
        join(&mut current, json!({"apiVersion": kind.api_version, "kind": kind.kind}));
        match dice.below(100) {
            0..6 => self.plan_new(kind, namespace, name),
            6..20 => {
                let mut body = kind.content(dice);
                body["metadata"] = kind.metadata(dice);
                if dice.chance(30) {
                    body["metadata"]["labels"] = json!({"color": null, "tier": "z"});
                }
                let content_type = if kind.custom || dice.chance(50) { MERGE } else { STRATEGIC };
                request("patch", "PATCH", path, content_type, body)
            }
            20..30 => request("json patch", "PATCH", path, JSON_PATCH, self.operations(&current)),
            30..48 => self.plan_apply(kind, &path),
            48..58 if kind.status => {
                let mut body = json!({"status": kind.status_of(dice)});
                if dice.chance(50) {
                    return request("status", "PATCH", path + "/status", MERGE, body);
                }
                let mut whole = current;
                join(&mut whole, std::mem::take(&mut body));
                request("status", "PUT", path + "/status", JSON, whole)
            }
            58..64 if kind.scale => {
                let body = json!({"spec": {"replicas": dice.below(4)}});
                request("scale", "PATCH", path + "/scale", MERGE, body)
            }
            64..74 => {
                let body = json!({"metadata": {"finalizers": null}});
                request("finalizers", "PATCH", path, MERGE, body)
            }
            74..77 => {
                let scope = super::watchers::Scope::random(kind, dice);
                let scope = super::watchers::Scope { namespace: kind.namespaced.then_some(namespace), ..scope };
                request("deletecollection", "DELETE", scope.url(kind), JSON, Value::Null)
            }
            77..88 => request("delete", "DELETE", path, JSON, self.delete_options(&current)),
            _ => {
                let mut body = current;
                self.change(kind, &mut body);
                match dice.below(4) {
                    0 => join(&mut body["metadata"], json!({"resourceVersion": null})),
                    1 => join(&mut body["metadata"], json!({"resourceVersion": "1"})),
                    _ => {}
                }
                request("update", "PUT", path, JSON, body)
            }
        }
    }

    fn plan_new(&self, kind: &'static Kind, namespace: &str, name: &str) -> Plan {
        let dice = &self.dice;
        let mut body = kind.content(dice);
        body["metadata"] = kind.metadata(dice);
        if dice.chance(20) {
            return self.plan_apply(kind, &kind.path(namespace, name));
        }
        let named = if dice.chance(10) { "generateName" } else { "name" };
        body["metadata"][named] = name.into();
        Plan {
            step: if named == "name" { "create" } else { "generate" },
            kind,
            method: "POST",
            path: kind.path(namespace, ""),
            content_type: JSON,
            body,
        }
    }

    fn plan_apply(&self, kind: &'static Kind, path: &str) -> Plan {
        let dice = &self.dice;
        let mut body = kind.content(dice);
        body["metadata"] = kind.metadata(dice);
        join(&mut body, json!({"apiVersion": kind.api_version, "kind": kind.kind}));
        let manager = dice.pick(&["m1", "m2", "kubectl"]);
        let path = format!("{path}?fieldManager={manager}&force={}", dice.chance(60));
        Plan { step: "apply", kind, method: "PATCH", path, content_type: APPLY, body }
    }

    /// An edit of the object that was read.
    fn change(&self, kind: &Kind, body: &mut Value) {
        let dice = &self.dice;
        match dice.below(3) {
            0 => body["metadata"]["labels"] = json!({"color": dice.pick(&["red", "blue"])}),
            1 => join(&mut body["metadata"], kind.metadata(dice)),
            _ => join(body, kind.content(dice)),
        }
    }

    fn operations(&self, current: &Value) -> Value {
        let dice = &self.dice;
        let color = dice.pick(&["red", "blue"]);
        let mut operations = vec![json!({"op": "add", "path": "/metadata/annotations", "value": {"note": color}})];
        if current["metadata"]["labels"].is_object() {
            operations.push(json!({"op": "replace", "path": "/metadata/labels/color", "value": color}));
        }
        if dice.chance(30) {
            operations.push(json!({"op": "test", "path": "/metadata/name", "value": dice.pick(&["a", "b"])}));
        }
        if dice.chance(30) {
            operations.push(json!({"op": "copy", "from": "/metadata/name", "path": "/metadata/annotations/name"}));
        }
        operations.into()
    }

    fn delete_options(&self, current: &Value) -> Value {
        let dice = &self.dice;
        let mut options = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
        if dice.chance(40) {
            options["propagationPolicy"] = (*dice.pick(&["Background", "Background", "Foreground", "Orphan"])).into();
        }
        if dice.chance(30) {
            let uid = if dice.chance(80) { current["metadata"]["uid"].clone() } else { "another".into() };
            options["preconditions"] = json!({"uid": uid});
        }
        if dice.chance(20) {
            let known = revision(current) + u64::from(dice.chance(20));
            options["preconditions"] = json!({"resourceVersion": known.to_string()});
        }
        if dice.chance(50) {
            options["gracePeriodSeconds"] = (*dice.pick(&[0, 0, 1, 30, -1])).into();
        }
        options
    }
}
