//! The path after `search/CATEGORY/`: that of a Kubernetes API, parsed as upstream does.

/// A path such as `apis/apps/v1/namespaces/shop/deployments/web`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Native {
    pub group: String,
    pub version: String,
    pub namespace: String,
    pub resource: String,
    pub name: String,
}

/// # Errors
/// Upstream's message for a path that does not name a resource.
pub fn native(path: &str) -> Result<Native, String> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let no_resource = || format!("k8s native Request URL({path}) is not a resource request");
    let (group, version, rest) = match parts.as_slice() {
        ["api", version, rest @ ..] if !rest.is_empty() => ("", version, rest),
        ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, version, rest),
        _ => return Err(no_resource()),
    };
    let (namespace, rest) = match rest {
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        rest => ("", rest),
    };
    let (resource, name) = match rest {
        [resource] => (*resource, ""),
        [resource, name] => (*resource, *name),
        _ => return Err(format!("invalid request parts({}) for k8s native request URL", parts.join(" "))),
    };
    Ok(Native {
        group: group.to_owned(),
        version: (*version).to_owned(),
        namespace: namespace.to_owned(),
        resource: resource.to_owned(),
        name: name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        for (path, expected) in [
            ("api/v1/nodes", Ok(" v1  nodes ")),
            ("/api/v1/nodes/n1/", Ok(" v1  nodes n1")),
            ("api/v1/namespaces", Ok(" v1  namespaces ")),
            ("api/v1/namespaces/shop", Ok(" v1  namespaces shop")),
            ("apis/apps/v1/namespaces/shop/deployments/web", Ok("apps v1 shop deployments web")),
            ("apis/apps/v1", Err("k8s native Request URL(apis/apps/v1) is not a resource request")),
            ("version", Err("k8s native Request URL(version) is not a resource request")),
            (
                "api/v1/namespaces/shop/pods/p/log",
                Err("invalid request parts(api v1 namespaces shop pods p log) for k8s native request URL"),
            ),
        ] {
            let found = native(path)
                .map(|it| format!("{} {} {} {} {}", it.group, it.version, it.namespace, it.resource, it.name));
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{path}");
        }
    }
}
