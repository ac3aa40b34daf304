//! New names, tags and digests of images.

use serde_json::Value;

use super::config::Image;
use super::resource::Resource;

/// Containers are found at any depth, so that custom resources with pod templates have their images changed too.
pub fn set(image: &Image, resource: &mut Resource) {
    if resource.gvk().kind != "CustomResourceDefinition" {
        below(image, &mut resource.object);
    }
}

fn below(image: &Image, value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| below(image, item)),
        Value::Object(map) => {
            for (key, member) in map.iter_mut() {
                if let ("containers" | "initContainers", Value::Array(items)) = (key.as_str(), &mut *member) {
                    items.iter_mut().filter_map(|item| item.get_mut("image")).for_each(|at| replace(image, at));
                }
                below(image, member);
            }
        }
        _ => {}
    }
}

fn replace(image: &Image, at: &mut Value) {
    if let Some(changed) = at.as_str().and_then(|text| changed(image, text)) {
        *at = Value::from(changed);
    }
}

/// The image after the change; `None` where the name is another one.
fn changed(image: &Image, text: &str) -> Option<String> {
    let (name, tag, digest) = split(text);
    if name != image.name {
        return None;
    }
    let name = if image.new_name.is_empty() { name } else { &image.new_name };
    let (tag, digest) = match (image.new_tag.as_str(), image.digest.as_str()) {
        ("", "") => (tag, digest),
        new => new,
    };
    let mut shown = name.to_owned();
    for (mark, part) in [(':', tag), ('@', digest)] {
        if !part.is_empty() {
            shown.push(mark);
            shown.push_str(part);
        }
    }
    Some(shown)
}

/// Name, tag and digest. A colon before a slash belongs to the registry's port.
fn split(text: &str) -> (&str, &str, &str) {
    let (rest, digest) = text.split_once('@').unwrap_or((text, ""));
    match rest.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, tag, digest),
        _ => (rest, "", digest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, [name, new_name, new_tag, digest]: [&str; 4], expected: Option<&str>) {
        let [name, new_name, new_tag, digest] = [name, new_name, new_tag, digest].map(str::to_owned);
        let image = Image { name, new_name, new_tag, digest, tag_suffix: None };
        assert_eq!(changed(&image, text).as_deref(), expected, "{text} {image:?}");
    }

    #[test]
    fn images_are_changed_by_name() {
        check("nginx", ["nginx", "", "2", ""], Some("nginx:2"));
        check("nginx:1", ["nginx", "", "2", ""], Some("nginx:2"));
        check("nginx:1@sha256:aa", ["nginx", "", "2", ""], Some("nginx:2"));
        check("nginx:1", ["nginx", "", "", "sha256:aa"], Some("nginx@sha256:aa"));
        check("nginx:1", ["nginx", "", "2", "sha256:aa"], Some("nginx:2@sha256:aa"));
        check("nginx:1@sha256:aa", ["nginx", "other", "", ""], Some("other:1@sha256:aa"));
        check("r:5000/a/nginx", ["r:5000/a/nginx", "nginx", "3", ""], Some("nginx:3"));
        check("r/nginx:1", ["nginx", "", "2", ""], None);
        check("nginx2:1", ["nginx", "", "2", ""], None);
    }
}
