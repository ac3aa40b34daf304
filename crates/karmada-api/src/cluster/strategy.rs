//! The strategy of Clusters: defaults, validation and table columns.

use apiextensions::age::human_duration;
use apimachinery::extent::TooLarge;
use apimachinery::field::ErrorList;
use apimachinery::meta::Time;
use apimachinery::resource::{Column, RequestContext, Strategy};
use apimachinery::status::Status;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{models, validation};
use crate::constants::{conditions, taints};

/// The strategy of Clusters.
#[derive(Clone, Copy, Debug)]
pub struct ClusterStrategy {
    /// Feature gate CustomizedClusterResourceModeling.
    pub resource_models: bool,
}

impl ClusterStrategy {
    fn prepare(context: &RequestContext, object: &mut Value) {
        let list = object.pointer_mut("/spec/taints").and_then(Value::as_array_mut);
        for taint in list.into_iter().flatten().filter_map(Value::as_object_mut) {
            let evicts = taint.get("effect").is_some_and(|effect| effect == taints::NO_EXECUTE);
            if evicts && taint.get("timeAdded").is_none_or(Value::is_null) {
                taint.insert("timeAdded".to_owned(), json!(context.now));
            }
        }
    }
}

impl Strategy for ClusterStrategy {
    /// Amounts and times get the form in which a typed object has them, so that another spelling is no change.
    fn default(&self, object: &mut Value) -> Result<(), TooLarge> {
        models::respell(object);
        let taints = object.pointer_mut("/spec/taints").and_then(Value::as_array_mut);
        for added in taints.into_iter().flatten().filter_map(|taint| taint.get_mut("timeAdded")) {
            if let Ok(time) = Time::deserialize(&*added) {
                *added = json!(time);
            }
        }
        Ok(())
    }

    fn prepare_create(&self, context: &RequestContext, object: &mut Value) {
        if let Some(map) = object.as_object_mut() {
            map.remove("status");
        }
        if self.resource_models && object["spec"].is_object() {
            if models::is_empty(object) {
                object["spec"]["resourceModels"] = models::default_models();
            } else {
                models::standardise(object);
            }
        }
        Self::prepare(context, object);
    }

    fn prepare_update(&self, context: &RequestContext, _old: &Value, object: &mut Value) {
        if context.subresource == "status" {
            return;
        }
        // Removed models are not restored.
        if self.resource_models && !models::is_empty(object) {
            models::standardise(object);
        }
        Self::prepare(context, object);
    }

    fn validate_create(&self, object: &Value) -> ErrorList {
        let mut errors = validation::name(object);
        errors.extend(validation::spec(object));
        errors
    }

    fn validate_update(&self, _context: &RequestContext, _old: &Value, object: &Value) -> ErrorList {
        validation::spec(object)
    }

    /// The deprecated zone is moved after validation, whose errors name the field that the client sent.
    fn to_stored(&self, object: &mut Value) -> Result<(), Status> {
        let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return Ok(()) };
        let zone = spec.get("zone").and_then(Value::as_str).unwrap_or_default().to_owned();
        if !zone.is_empty() && spec.get("zones").and_then(Value::as_array).is_none_or(Vec::is_empty) {
            spec.insert("zones".to_owned(), json!([zone]));
        }
        spec.remove("zone");
        leave_out_empty(spec, &["syncMode"]);
        for taint in spec.get_mut("taints").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(taint) = taint.as_object_mut() {
                leave_out_empty(taint, &["key", "effect"]);
            }
        }
        Ok(())
    }

    fn columns(&self) -> Vec<Column> {
        let mut name = Column::new("Name", "string");
        name.format = "name".to_owned();
        let mut columns = vec![name];
        columns.extend(["Version", "Mode", "Ready", "Age"].map(|name| Column::new(name, "string")));
        columns.extend(
            ["Zones", "Region", "Provider", "API-Endpoint", "Proxy-URL"].map(|name| Column::new(name, "string").wide()),
        );
        columns
    }

    fn cells(&self, object: &Value, now: Time) -> Vec<Value> {
        let text = |value: &Value| json!(value.as_str().unwrap_or_default());
        let or_none = |value: &Value| json!(value.as_str().filter(|text| !text.is_empty()).unwrap_or("<none>"));
        let list = object["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
        let ready = list.iter().find(|it| it["type"] == conditions::READY).and_then(|it| it["status"].as_str());
        let created =
            object["metadata"]["creationTimestamp"].as_str().and_then(|it| it.parse::<jiff::Timestamp>().ok());
        let age = created.map_or_else(
            || "<unknown>".to_owned(),
            |created| human_duration(now.timestamp().as_second() - created.as_second()),
        );
        let spec = &object["spec"];
        let zones: Vec<&str> = spec["zones"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        vec![
            text(&object["metadata"]["name"]),
            text(&object["status"]["kubernetesVersion"]),
            text(&spec["syncMode"]),
            json!(ready.unwrap_or("Unknown")),
            json!(age),
            json!(if zones.is_empty() { "<none>".to_owned() } else { zones.join(",") }),
            or_none(&spec["region"]),
            or_none(&spec["provider"]),
            text(&spec["apiEndpoint"]),
            or_none(&spec["proxyURL"]),
        ]
    }
}

/// Drops empty optional fields, as upstream's typed objects do.
fn leave_out_empty(map: &mut Map<String, Value>, required: &[&str]) {
    map.retain(|name, value| {
        let is_empty_value = match value {
            Value::Null => true,
            Value::Bool(value) => !*value,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(map) => map.is_empty(),
            Value::Number(_) => false,
        };
        !is_empty_value || required.contains(&name.as_str())
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_optional_fields_are_dropped() {
        let strategy = ClusterStrategy { resource_models: true };
        let mut object = json!({"spec": {"syncMode": "Push", "proxyURL": "", "zones": [], "insecureSkipTLSVerification": false,
            "taints": [{"key": "k", "value": "", "effect": "NoSchedule", "timeAdded": null}], "proxyHeader": {}, "id": "i"}});
        strategy.to_stored(&mut object).unwrap();
        let taints = json!([{"key": "k", "effect": "NoSchedule"}]);
        assert_eq!(object["spec"], json!({"syncMode": "Push", "taints": taints, "id": "i"}));
        object["spec"]["taints"] = json!([]);
        strategy.to_stored(&mut object).unwrap();
        assert_eq!(object["spec"].get("taints"), None);
    }

    fn context() -> RequestContext {
        RequestContext {
            now: Time::new("2026-01-02T03:04:05Z".parse().unwrap()),
            user: String::new(),
            groups: Vec::new(),
            subresource: String::new(),
            dry_run: false,
        }
    }

    #[test]
    fn a_new_cluster() {
        let strategy = ClusterStrategy { resource_models: true };
        let mut object = json!({"metadata": {"name": "m1"}, "spec": {"syncMode": "Push", "zone": "z", "taints": [{"key": "k", "effect": "NoExecute"}]}, "status": {"x": 1}});
        strategy.prepare_create(&context(), &mut object);
        assert_eq!(strategy.validate_create(&object), []);
        strategy.to_stored(&mut object).unwrap();
        assert!(object.get("status").is_none());
        assert_eq!(object["spec"]["resourceModels"].as_array().unwrap().len(), 9);
        assert_eq!(object["spec"]["taints"][0]["timeAdded"], "2026-01-02T03:04:05Z");
        assert_eq!((&object["spec"]["zones"], object["spec"].get("zone")), (&json!(["z"]), None));

        let mut bare = object.clone();
        bare["spec"]["resourceModels"] = json!([]);
        strategy.prepare_update(&context(), &object, &mut bare);
        assert_eq!(bare["spec"]["resourceModels"], json!([]));
    }

    #[test]
    fn amounts_and_times_are_stored_as_typed_objects_have_them() {
        let strategy = ClusterStrategy { resource_models: true };
        let range = |min: Value, max: Value| json!([{"name": "memory", "min": min, "max": max}]);
        let mut object = json!({"metadata": {"name": "m1"}, "spec": {"syncMode": "Push",
            "taints": [{"key": "k", "effect": "NoExecute", "timeAdded": "2020-01-01T00:00:00.5+02:00"}],
            "resourceModels": [{"grade": 0, "ranges": range(json!(0), json!(1.5))},
                {"grade": 1, "ranges": range(json!("1500m"), json!(17_179_869_184_i64))},
                {"grade": 2, "ranges": range(json!("16384Mi"), json!("2Ti"))}]}});
        strategy.default(&mut object).unwrap();
        strategy.prepare_create(&context(), &mut object);
        assert_eq!(strategy.validate_create(&object), []);
        assert_eq!(object["spec"]["taints"][0]["timeAdded"], "2019-12-31T22:00:00Z");
        let bounds: Vec<&Value> = (0..3).map(|grade| &object["spec"]["resourceModels"][grade]["ranges"][0]).collect();
        let expected = [("0", "1500m"), ("1500m", "17179869184"), ("16Gi", "9223372036854775807")];
        let expected = expected.map(|(min, max)| json!({"name": "memory", "min": min, "max": max}));
        assert_eq!(json!(bounds), json!(expected));
    }

    #[test]
    fn table_row() {
        let strategy = ClusterStrategy { resource_models: true };
        let object = json!({"metadata": {"name": "m1", "creationTimestamp": "2026-01-02T03:03:35Z"}, "spec": {"syncMode": "Push", "zones": ["a", "b"]},
            "status": {"kubernetesVersion": "v1.36.0", "conditions": [{"type": "Ready", "status": "True"}]}});
        let row = strategy.cells(&object, context().now);
        assert_eq!(row.len(), strategy.columns().len());
        assert_eq!(
            json!(row),
            json!(["m1", "v1.36.0", "Push", "True", "30s", "a,b", "<none>", "<none>", "", "<none>"])
        );
    }

    #[test]
    fn the_type_is_compiled() {
        let resource = super::super::resources(None).remove(0);
        let schemas = &resource.info.schema;
        let spec = schemas.node().properties["spec"].schema;
        assert!(schemas.schemas.get(spec).properties.contains_key("resourceModels"));
        assert_eq!(schemas.schemas.get(spec).required, ["syncMode".into()]);
        let quantities = schemas.schemas.iter().filter(|(_, node)| node.is_quantity()).count();
        let others = schemas.schemas.iter().filter(|(_, node)| node.int_or_string).count();
        assert!(quantities > 0 && others == 0, "{quantities} {others}");
    }
}
