//! Prints a Cluster's spec and its models in errors: upstream prints its internal types, with Go's field names, in the
//! order of their declaration, including empty ones.

use apimachinery::field::json_of_go;
use apimachinery::quantity::Quantity;
use serde_json::{Value, json};

use crate::shown::text as shown;

/// Prints `spec`.
pub(super) fn spec(spec: &Value) -> String {
    let text = |field: &str| json_of_go(&json!(spec[field].as_str().unwrap_or_default()));
    let flag = |field: &str| json_of_go(&json!(spec[field].as_bool().unwrap_or_default()));
    let secret = |field: &str| match &spec[field] {
        Value::Object(map) => {
            let part = |name: &str| json_of_go(&json!(map.get(name).and_then(Value::as_str).unwrap_or_default()));
            format!("{{\"Namespace\":{},\"Name\":{}}}", part("namespace"), part("name"))
        }
        _ => "null".to_owned(),
    };
    let list = |field: &str| match &spec[field] {
        Value::Array(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(",")),
        _ => "null".to_owned(),
    };
    let members = [
        ("SyncMode", text("syncMode")),
        ("APIEndpoint", text("apiEndpoint")),
        ("SecretRef", secret("secretRef")),
        ("ImpersonatorSecretRef", secret("impersonatorSecretRef")),
        ("InsecureSkipTLSVerification", flag("insecureSkipTLSVerification")),
        ("ProxyURL", text("proxyURL")),
        ("ProxyHeader", json_of_go(&spec["proxyHeader"])),
        ("Provider", text("provider")),
        ("Region", text("region")),
        ("Zone", text("zone")),
        ("Zones", list("zones")),
        ("Taints", list("taints")),
        ("ResourceModels", models(&spec["resourceModels"])),
    ];
    // The only field with a different name.
    let id = spec["id"].as_str().filter(|id| !id.is_empty());
    let id = id.map(|id| format!("\"id\":{}", json_of_go(&json!(id))));
    let members = members.into_iter().map(|(name, value)| format!("\"{name}\":{value}"));
    format!("{{{}}}", id.into_iter().chain(members).collect::<Vec<_>>().join(","))
}

/// Prints `spec.resourceModels`.
pub(super) fn models(models: &Value) -> String {
    let Some(models) = models.as_array() else { return "null".to_owned() };
    let amount = |value: &Value| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        json_of_go(&json!(text.parse::<Quantity>().map_or(text, |amount| amount.to_string())))
    };
    let range = |range: &Value| {
        let name = json_of_go(&json!(range["name"].as_str().unwrap_or_default()));
        format!("{{\"Name\":{name},\"Min\":{},\"Max\":{}}}", amount(&range["min"]), amount(&range["max"]))
    };
    let model = |model: &Value| {
        let ranges = match &model["ranges"] {
            Value::Array(ranges) => format!("[{}]", ranges.iter().map(range).collect::<Vec<_>>().join(",")),
            _ => "null".to_owned(),
        };
        format!("{{\"Grade\":{},\"Ranges\":{ranges}}}", model["grade"].as_u64().unwrap_or_default())
    };
    format!("[{}]", models.iter().map(model).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_gos_names() {
        let value = json!({"id": "i", "syncMode": "Push", "zone": "a", "zones": ["b"], "secretRef": {"namespace": "n", "name": "s"},
            "taints": [{"effect": "NoSchedule", "key": "k"}],
            "resourceModels": [{"grade": 1, "ranges": [{"name": "cpu", "min": "1000m", "max": "2"}]}]});
        let expected = concat!(
            r#"{"id":"i","SyncMode":"Push","APIEndpoint":"","SecretRef":{"Namespace":"n","Name":"s"},"ImpersonatorSecretRef":null,"#,
            r#""InsecureSkipTLSVerification":false,"ProxyURL":"","ProxyHeader":null,"Provider":"","Region":"","Zone":"a","Zones":["b"],"#,
            r#""Taints":[{"key":"k","effect":"NoSchedule"}],"#,
            r#""ResourceModels":[{"Grade":1,"Ranges":[{"Name":"cpu","Min":"1","Max":"2"}]}]}"#,
        );
        assert_eq!(spec(&value), expected);
        assert_eq!(models(&Value::Null), "null");
    }
}
