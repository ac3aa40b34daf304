//! Edits of image references: `[registry/]repository[:tag|@digest]`.

use karmada_api::policy::v1alpha1::{ImageComponent, ImageOverrider, OverriderOperator};
use serde_json::Value;

use super::OverrideError;
use super::apply::containers_path;

pub(super) fn apply(overrider: &ImageOverrider, object: &mut Value) -> Result<(), OverrideError> {
    if let Some(predicate) = &overrider.predicate {
        let path = &predicate.path;
        return match object.pointer_mut(path) {
            Some(Value::String(image)) => edit(overrider, image),
            Some(_) => Err(failed(path, "the value is not a string")),
            None => Err(failed(path, "there is no such field")),
        };
    }
    let containers = containers_path(object).and_then(|path| object.pointer_mut(path)).and_then(Value::as_array_mut);
    for container in containers.into_iter().flatten() {
        match container.get_mut("image") {
            Some(Value::String(image)) => edit(overrider, image)?,
            // The text of an image that is not there is empty, and an empty text is no image.
            _ => edit(overrider, &mut String::new())?,
        }
    }
    Ok(())
}

fn failed(path: &str, detail: &str) -> OverrideError {
    OverrideError::ImagePath { path: path.to_owned(), detail: detail.to_owned() }
}

fn edit(overrider: &ImageOverrider, image: &mut String) -> Result<(), OverrideError> {
    let mut parts = parse(image).map_err(|detail| OverrideError::Image { image: image.clone(), detail })?;
    let value = overrider.value.as_str();
    match overrider.component {
        ImageComponent::Registry => change(&mut parts.registry, overrider.operator, value),
        ImageComponent::Repository => change(&mut parts.repository, overrider.operator, value),
        ImageComponent::Tag => parts.change_version(overrider.operator, value),
    }
    *image = parts.print();
    Ok(())
}

fn change(part: &mut String, operator: OverriderOperator, value: &str) {
    match operator {
        OverriderOperator::Add => part.push_str(value),
        OverriderOperator::Replace => value.clone_into(part),
        OverriderOperator::Remove => part.clear(),
    }
}

#[derive(Debug, Default, PartialEq)]
struct Image {
    registry: String,
    repository: String,
    tag: String,
    digest: String,
}

impl Image {
    fn change_version(&mut self, operator: OverriderOperator, value: &str) {
        let current = if self.tag.is_empty() { &self.digest } else { &self.tag };
        let new_value = match operator {
            OverriderOperator::Add => format!("{current}{value}"),
            OverriderOperator::Replace => value.to_owned(),
            OverriderOperator::Remove if self.tag.is_empty() => return self.digest.clear(),
            OverriderOperator::Remove => return self.tag.clear(),
        };
        // Text that is neither a tag nor a digest has no effect.
        if is_tag(&new_value) {
            (self.tag, self.digest) = (new_value, String::new());
        } else if is_digest(&new_value) {
            (self.tag, self.digest) = (String::new(), new_value);
        }
    }

    fn print(&self) -> String {
        let mut text = String::new();
        if !self.registry.is_empty() {
            text = format!("{}/", self.registry);
        }
        text.push_str(&self.repository);
        if !self.tag.is_empty() {
            text = format!("{text}:{}", self.tag);
        } else if !self.digest.is_empty() {
            text = format!("{text}@{}", self.digest);
        }
        text
    }
}

/// The maximum length of a repository, without its possible host.
const MAX_REPOSITORY: usize = 255;

fn parse(text: &str) -> Result<Image, &'static str> {
    let (name, digest) = text.split_once('@').unwrap_or((text, ""));
    if text.contains('@') && !is_content(digest) {
        return Err("the digest is malformed");
    }
    let last = name.rfind('/').map_or(0, |slash| slash + 1);
    let (name, tag) = match name[last..].find(':') {
        Some(colon) if !is_tag(&name[last + colon + 1..]) => return Err("the tag is malformed"),
        Some(colon) => (&name[..last + colon], &name[last + colon + 1..]),
        None => (name, ""),
    };
    // The first component may be a host; a host may have capitals, also without a dot, in which case it does not count
    // as a registry for overriders.
    let path = match name.split_once('/') {
        Some((first, rest)) if is_host(first) => rest,
        _ => name,
    };
    if path.is_empty() {
        return Err("the repository is empty");
    }
    if !path.split('/').all(is_component) {
        return Err("the repository must be words in lower case, joined by '/', '.', '_', '__' or dashes");
    }
    if path.len() > MAX_REPOSITORY {
        return Err("the repository is too long");
    }
    let (registry, repository) = match name.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (first, rest),
        _ => ("", name),
    };
    // With both, the tag wins.
    let digest = if tag.is_empty() { digest } else { "" };
    Ok(Image {
        registry: registry.to_owned(),
        repository: repository.to_owned(),
        tag: tag.to_owned(),
        digest: digest.to_owned(),
    })
}

/// A name in DNS or an address of IPv6 in brackets, and perhaps a port.
fn is_host(text: &str) -> bool {
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port),
        _ => (text, "0"),
    };
    let label = |label: &str| {
        !label.is_empty()
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let address = |inner: &str| !inner.is_empty() && inner.chars().all(|c| c.is_ascii_hexdigit() || c == ':');
    let inner = name.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    !port.is_empty()
        && port.chars().all(|c| c.is_ascii_digit())
        && inner.map_or_else(|| name.split('.').all(label), address)
}

/// Lower-case words and digits with single separators between them.
fn is_component(text: &str) -> bool {
    let mut separators = text.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit()).peekable();
    let begins = separators.next() == Some("") && separators.peek().is_some();
    let known = |it: &str| matches!(it, "" | "." | "_" | "__") || it.chars().all(|c| c == '-');
    begins && text.ends_with(|c: char| c.is_ascii_alphanumeric()) && separators.all(known)
}

fn is_tag(text: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.len() <= 128 && text.starts_with(word) && text.chars().all(|c| word(c) || matches!(c, '.' | '-'))
}

/// `algorithm:hex`, with at least 32 digits.
fn is_digest(text: &str) -> bool {
    let Some((algorithm, hex)) = text.split_once(':') else { return false };
    let named = algorithm.split(['+', '.', '-', '_']).all(|part| {
        part.starts_with(|c: char| c.is_ascii_alphabetic()) && part.chars().all(|c| c.is_ascii_alphanumeric())
    });
    named && hex.len() >= 32 && hex.chars().all(|c| c.is_ascii_hexdigit())
}

/// A digest by one of the algorithms there are, as long as they make it.
fn is_content(text: &str) -> bool {
    let Some((algorithm, hex)) = text.split_once(':') else { return false };
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return false,
    };
    hex.len() == length && hex.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn edited(image: &str, component: &str, operator: &str, value: &str) -> String {
        let overrider: ImageOverrider =
            serde_json::from_value(json!({"component": component, "operator": operator, "value": value})).unwrap();
        let mut image = image.to_owned();
        match edit(&overrider, &mut image) {
            Ok(()) => image,
            Err(_) => "error".to_owned(),
        }
    }

    #[test]
    fn references() {
        let digest = format!("sha256:{}", "a".repeat(64));
        for (image, component, operator, value, expected) in [
            ("nginx:1.19.0", "Registry", "replace", "fictional.registry.us", "fictional.registry.us/nginx:1.19.0"),
            ("nginx", "Registry", "add", "r.io", "r.io/nginx"),
            ("localhost/x:y", "Registry", "remove", "", "x:y"),
            ("library/nginx", "Registry", "remove", "", "library/nginx"),
            ("a.b/c:t", "Repository", "add", "/d", "a.b/c/d:t"),
            ("a.b:5000/c", "Repository", "replace", "e", "a.b:5000/e"),
            ("nginx:1.0", "Repository", "remove", "", ":1.0"),
            ("nginx:1.0", "Tag", "add", "-alpine", "nginx:1.0-alpine"),
            ("nginx:1.0", "Tag", "remove", "", "nginx"),
            ("nginx:1.0", "Tag", "replace", "not a tag", "nginx:1.0"),
            ("nginx:1.0", "Tag", "replace", digest.as_str(), &format!("nginx@{digest}")),
            (&format!("nginx@{digest}"), "Tag", "replace", "2.0", "nginx:2.0"),
            (&format!("a.b/c:t@{digest}"), "Registry", "add", "", "a.b/c:t"),
            ("Nginx", "Tag", "replace", "1", "error"),
            ("", "Tag", "replace", "1", "error"),
            ("Team/nginx", "Tag", "replace", "1", "Team/nginx:1"),
            ("a/Nginx", "Tag", "replace", "1", "error"),
            ("a//b", "Tag", "replace", "1", "error"),
            ("a..b", "Tag", "replace", "1", "error"),
            ("my__image-x", "Tag", "replace", "1", "my__image-x:1"),
            ("nginx:", "Tag", "replace", "1", "error"),
            (&format!("nginx:-@{digest}"), "Tag", "replace", "1", "error"),
            ("a..b/c", "Tag", "replace", "1", "error"),
            ("a.b./c", "Tag", "replace", "1", "error"),
            ("a-/b", "Tag", "replace", "1", "error"),
            ("a.b:port/c", "Tag", "replace", "1", "error"),
            ("my__reg.io:80/c", "Tag", "replace", "1", "error"),
            ("my_reg.io/c", "Registry", "remove", "", "c"),
            ("localhost:5000", "Registry", "add", "r.io", "r.io/localhost:5000"),
            ("UPPER.io/x", "Registry", "remove", "", "x"),
            ("[::1]:5000/x:1", "Registry", "remove", "", "x:1"),
            ("[::1]/x:1", "Tag", "remove", "", "[::1]/x"),
            (&format!("nginx@{}", digest.to_uppercase()), "Tag", "remove", "", "error"),
            (&format!("nginx@sha256:{}", "a".repeat(40)), "Tag", "remove", "", "error"),
            (&format!("nginx@md5:{}", "a".repeat(32)), "Tag", "remove", "", "error"),
            (&format!("nginx@sha512:{}", "a".repeat(128)), "Tag", "remove", "", "nginx"),
            // A new value is checked less strictly than an existing one.
            ("nginx", "Tag", "replace", &format!("md5:{}", "A".repeat(32)), &format!("nginx@md5:{}", "A".repeat(32))),
            (&format!("r.io/{}", "a".repeat(255)), "Registry", "remove", "", &"a".repeat(255)),
            (&format!("r.io/{}", "a".repeat(256)), "Registry", "remove", "", "error"),
            (&format!("x:{}", "t".repeat(128)), "Tag", "remove", "", "x"),
            (&format!("x:{}", "t".repeat(129)), "Tag", "remove", "", "error"),
        ] {
            assert_eq!(edited(image, component, operator, value), expected, "{image}");
        }
    }
}
