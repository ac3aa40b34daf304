//! The form of discovery that a client requests.

use http::HeaderMap;

use crate::wire::negotiate::Encoding;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One document for each group version.
    Legacy(Encoding),
    /// Everything at once, in `apidiscovery.k8s.io/v2` or `v2beta1`.
    Aggregated(&'static str),
}

/// The first alternative that can be served, `None` without one. `root`: the path has an aggregated form.
pub fn choose(headers: &HeaderMap, root: bool) -> Option<Form> {
    let mut alternatives: Vec<&str> = headers
        .get_all(http::header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|alternative| !alternative.is_empty())
        .collect();
    if alternatives.is_empty() {
        return Some(Form::Legacy(Encoding::Json));
    }
    // Stable: of equally liked ones the first counts.
    alternatives.sort_by(|one, other| quality(other).total_cmp(&quality(one)));
    let forms: Vec<Form> = alternatives.into_iter().filter_map(|alternative| form(alternative, root)).collect();
    // JSON is already rendered, so protobuf is sent only to clients that accept nothing else.
    let text = forms.iter().find(|form| **form != Form::Legacy(Encoding::Protobuf));
    text.or(forms.first()).copied()
}

fn quality(alternative: &str) -> f32 {
    let stated = alternative.split(';').find_map(|part| part.trim().strip_prefix("q=")?.parse().ok());
    stated.unwrap_or(1.0)
}

fn form(alternative: &str, root: bool) -> Option<Form> {
    let mut parts = alternative.split(';').map(str::trim);
    let media = parts.next()?;
    let mut parameter = [None; 3];
    for (name, value) in parts.filter_map(|part| part.split_once('=')) {
        if let Some(slot) = ["as", "g", "v"].iter().position(|known| *known == name) {
            parameter[slot] = Some(value);
        }
    }
    match (media, parameter) {
        ("application/json" | "application/*" | "*/*", [None, ..]) => Some(Form::Legacy(Encoding::Json)),
        ("application/yaml", [None, ..]) => Some(Form::Legacy(Encoding::Yaml)),
        (crate::wire::respond::PROTOBUF, [None, ..]) => Some(Form::Legacy(Encoding::Protobuf)),
        ("application/json", [Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io"), version]) if root => {
            match version {
                Some("v2") => Some(Form::Aggregated("v2")),
                Some("v2beta1") => Some(Form::Aggregated("v2beta1")),
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_servable_alternative_wins() {
        let v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let nopeer = format!("{v2};profile=nopeer,{v2},application/json");
        let beta = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        for (accept, root, expected) in [
            (v2, true, Some(Form::Aggregated("v2"))),
            (nopeer.as_str(), true, Some(Form::Aggregated("v2"))),
            (beta, true, Some(Form::Aggregated("v2beta1"))),
            (beta, false, Some(Form::Legacy(Encoding::Json))),
            (v2, false, None),
            ("application/json, */*", true, Some(Form::Legacy(Encoding::Json))),
            ("application/vnd.kubernetes.protobuf, */*", true, Some(Form::Legacy(Encoding::Json))),
            ("text/html", true, None),
            ("application/json;q=0.5,application/yaml", false, Some(Form::Legacy(Encoding::Yaml))),
            ("application/yaml;q=0.3,application/json", false, Some(Form::Legacy(Encoding::Json))),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(http::header::ACCEPT, accept.parse().expect("a header"));
            assert_eq!(choose(&headers, root), expected, "{accept}");
        }
        assert_eq!(choose(&HeaderMap::new(), true), Some(Form::Legacy(Encoding::Json)));
    }
}
