//! Random objects of a few kinds with different features: spec and status, scale, generation, a namespace, a grace
//! period, a schema.

use serde_json::{Value, json};
use world::World;

/// The source of randomness of a run, separate so that the server's draws do not affect it.
pub(super) struct Dice(pub World);

impl Dice {
    pub(super) fn below(&self, bound: usize) -> usize {
        usize::try_from(self.0.random_u64() % bound as u64).expect("below a usize")
    }

    pub(super) fn chance(&self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(super) fn pick<'a, T>(&self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}

/// A resource that the run works on.
pub(super) struct Kind {
    pub prefix: &'static str,
    pub plural: &'static str,
    pub kind: &'static str,
    pub api_version: &'static str,
    pub namespaced: bool,
    pub custom: bool,
    pub status: bool,
    pub scale: bool,
    /// A selectable field, and its values.
    pub field: Option<(&'static str, &'static [&'static str])>,
}

const BUILT_IN: Kind = Kind {
    prefix: "/api/v1",
    plural: "configmaps",
    kind: "ConfigMap",
    api_version: "v1",
    namespaced: true,
    custom: false,
    status: false,
    scale: false,
    field: None,
};

pub(super) static KINDS: &[Kind] = &[
    BUILT_IN,
    Kind { plural: "secrets", kind: "Secret", field: Some(("type", &["Opaque", "example.com/x"])), ..BUILT_IN },
    Kind {
        plural: "pods",
        kind: "Pod",
        status: true,
        field: Some(("spec.nodeName", &["", "node1", "node2"])),
        ..BUILT_IN
    },
    Kind {
        prefix: "/apis/apps/v1",
        plural: "deployments",
        kind: "Deployment",
        api_version: "apps/v1",
        status: true,
        scale: true,
        ..BUILT_IN
    },
    Kind {
        prefix: "/apis/networking.k8s.io/v1",
        plural: "ingressclasses",
        kind: "IngressClass",
        api_version: "networking.k8s.io/v1",
        namespaced: false,
        ..BUILT_IN
    },
    Kind {
        prefix: "/apis/example.com/v1",
        plural: "widgets",
        kind: "Widget",
        api_version: "example.com/v1",
        custom: true,
        status: true,
        scale: true,
        field: Some(("spec.color", &["red", "blue", "green"])),
        ..BUILT_IN
    },
];

pub(super) fn definition() -> Value {
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
                "selectableFields": [{"jsonPath": ".spec.color"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {
                        "color": {"type": "string", "default": "green"},
                        "replicas": {"type": "integer", "minimum": 0},
                        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                        "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
                            "items": {"type": "object", "required": ["port"], "properties": {
                                "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}, "name": {"type": "string"}}}}}},
                    "status": {"type": "object", "properties": {"replicas": {"type": "integer"}, "phase": {"type": "string"}}}}}}}]},
    })
}

impl Kind {
    /// Metadata that users write.
    pub(super) fn metadata(&self, dice: &Dice) -> Value {
        let mut metadata = json!({});
        if dice.chance(70) {
            metadata["labels"] = json!({"color": dice.pick(&["red", "blue"]), "tier": dice.pick(&["a", "b", "c"])});
        }
        if dice.chance(30) {
            metadata["annotations"] = json!({"note": format!("n{}", dice.below(3))});
        }
        if dice.chance(15) {
            metadata["finalizers"] = json!(["example.com/hold"]);
        }
        metadata
    }

    /// The object's content without metadata, as a user would write it: random parts may be missing.
    pub(super) fn content(&self, dice: &Dice) -> Value {
        let word = || (*dice.pick(&["x", "y", "z"])).to_owned();
        match self.kind {
            "ConfigMap" => json!({"data": {"k": word(), word(): "1"}}),
            "Secret" => json!({"type": dice.pick(&["Opaque", "example.com/x"]), "data": {word(): "YQ=="}}),
            "Pod" => {
                json!({"spec": {"containers": [{"name": "c", "image": word()}], "nodeName": dice.pick(&["", "node1", "node2"])}})
            }
            "Deployment" => json!({"spec": {
                "replicas": dice.below(4), "selector": {"matchLabels": {"app": "x"}},
                "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": self.containers(dice)}}}}),
            "IngressClass" => json!({"spec": {"controller": format!("example.com/{}", word())}}),
            _ => self.widget(dice),
        }
    }

    fn containers(&self, dice: &Dice) -> Value {
        let names = &["a", "b", "c"][..1 + dice.below(3)];
        let container = |name: &&str| {
            let mut container = json!({"name": name, "image": dice.pick(&["one", "two"])});
            if dice.chance(50) {
                container["ports"] = json!([{"containerPort": 80 + dice.below(2)}]);
            }
            if dice.chance(30) {
                container["env"] = json!([{"name": "E", "value": dice.pick(&["1", "2"])}]);
            }
            container
        };
        names.iter().map(container).collect()
    }

    fn widget(&self, dice: &Dice) -> Value {
        let mut spec = json!({});
        if dice.chance(60) {
            spec["color"] = (*dice.pick(&["red", "blue"])).into();
        }
        if dice.chance(60) {
            spec["replicas"] = dice.below(3).into();
        }
        if dice.chance(40) {
            spec["free"] = json!({"deep": {dice.pick(&["p", "q"]).to_string(): dice.below(2)}});
        }
        if dice.chance(40) {
            spec["tags"] = json!(&["a", "b", "c"][dice.below(3)..]);
        }
        if dice.chance(40) {
            let port = |n: usize| json!({"port": n, "name": dice.pick(&["web", "db"])});
            spec["ports"] = (1..1 + dice.below(3)).map(port).collect();
        }
        json!({"spec": spec})
    }

    pub(super) fn status_of(&self, dice: &Dice) -> Value {
        match self.kind {
            "Pod" => json!({"phase": dice.pick(&["Pending", "Running"])}),
            _ => json!({"replicas": dice.below(3)}),
        }
    }
}

/// Adds `from` to `into`, member by member.
pub(super) fn join(into: &mut Value, from: Value) {
    if let (Some(into), Value::Object(from)) = (into.as_object_mut(), from) {
        into.extend(from);
    }
}
