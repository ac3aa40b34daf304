//! IP families of services.

use apimachinery::field::{Error, ErrorList, Path};
use serde_json::{Map, Value};

use super::range::{self, Range, Ranges};
use super::{as_text, text};

/// Decides the families of a service that needs addresses. `was` is its stored `spec`, if it had addresses.
pub(super) fn families(was: Option<&Value>, spec: &mut Value, ranges: &Ranges) -> ErrorList {
    // An update that does not concern the families neither adds nor removes one, whatever the server's ranges.
    let is_preferred = |spec: &Value| text(spec, "ipFamilyPolicy") == "PreferDualStack";
    let is_same =
        |was: &Value| ["type", "clusterIP", "clusterIPs", "ipFamilies"].iter().all(|it| spec[*it] == was[*it]);
    if was.is_some_and(|was| is_preferred(was) && is_preferred(spec) && is_same(was)) {
        return ErrorList::new();
    }
    let no_pods = text(spec, "clusterIP") == "None" && spec["selector"].as_object().is_none_or(Map::is_empty);
    if text(spec, "ipFamilyPolicy").is_empty() {
        // Without a selector, addresses may be of either family.
        spec["ipFamilyPolicy"] = if no_pods { "RequireDualStack" } else { "SingleStack" }.into();
    }
    let (first, second) = (ranges.primary.family(), ranges.secondary.as_ref().map(Range::family));
    let is_configured = |family: &str| family == first || second == Some(family);
    let mut errors = policy(was, spec);
    let mut list: Vec<String> = spec["ipFamilies"].as_array().into_iter().flatten().filter_map(as_text).collect();
    for (index, address) in spec["clusterIPs"].as_array().into_iter().flatten().enumerate().skip(list.len()) {
        let Some(address) = address.as_str().and_then(|text| text.parse().ok()) else { break };
        let family = range::family_of(&address);
        if is_configured(family) {
            list.push(family.to_owned());
        } else {
            let detail = format!("{family} is not configured on this cluster");
            let path = Path::new("spec").child("clusterIPs").index(index);
            errors.push(Error::invalid(&path, spec["clusterIPs"].clone(), detail));
        }
    }
    if errors.is_empty() && !no_pods {
        errors = unavailable(spec, &list, &is_configured, second.is_some());
    }
    if !errors.is_empty() {
        return errors;
    }
    if list.is_empty() {
        list.push(first.to_owned());
    }
    let has_both = no_pods || second.is_some();
    if text(spec, "ipFamilyPolicy") != "SingleStack" && list.len() == 1 && has_both {
        list.push(if list[0] == "IPv4" { "IPv6" } else { "IPv4" }.to_owned());
    }
    spec["ipFamilies"] = list.into();
    errors
}

/// Lists that the policy does not permit.
fn policy(was: Option<&Value>, spec: &Value) -> ErrorList {
    let path = Path::new("spec").child("ipFamilyPolicy");
    let policy = text(spec, "ipFamilyPolicy");
    let count = |spec: &Value, field: &str| spec[field].as_array().map_or(0, Vec::len);
    let mut errors = ErrorList::new();
    for (field, one, several) in
        [("clusterIPs", "cluster IP", "cluster IPs"), ("ipFamilies", "IP family", "IP families")]
    {
        let number = count(spec, field);
        if policy == "SingleStack" && number == 2 {
            let detail =
                format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {several} are specified");
            errors.push(Error::invalid(&path, policy, detail));
        }
        if policy != "SingleStack" && number > 0 && was.is_some_and(|was| number < count(was, field)) {
            errors.push(Error::invalid(&path, policy, format!("must be 'SingleStack' to release the secondary {one}")));
        }
    }
    errors
}

/// Families that the server has no addresses of.
fn unavailable(spec: &Value, list: &[String], is_configured: &dyn Fn(&str) -> bool, is_dual: bool) -> ErrorList {
    let (path, mut errors) = (Path::new("spec"), ErrorList::new());
    if text(spec, "ipFamilyPolicy") == "RequireDualStack" && !is_dual {
        let detail = "this cluster is not configured for dual-stack services";
        errors.push(Error::invalid(&path.child("ipFamilyPolicy"), "RequireDualStack", detail));
    }
    for (index, family) in list.iter().enumerate().filter(|(_, family)| !is_configured(family)) {
        let at = path.child("ipFamilies").index(index);
        errors.push(Error::invalid(&at, family.as_str(), "not configured on this cluster"));
    }
    errors
}
