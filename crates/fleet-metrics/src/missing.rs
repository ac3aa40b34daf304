//! Members that did not respond: warnings with a partial response, and the error if no member responded.

use apimachinery::{Status, StatusReason};

/// Each warning is a header of the response; the clusters beyond are counted in one more.
const NAMED: usize = 10;
/// Bytes of a reason: ten of them stay within a quarter of the 8 KiB that proxies accept for headers.
const LONGEST: usize = 200;

/// A member and why it has no part in a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The cluster.
    pub cluster: String,
    /// Why, without the name of the cluster.
    pub reason: String,
}

/// Header values are visible ASCII.
fn short(reason: &str) -> String {
    let visible = |c: char| if c.is_ascii_graphic() || c == ' ' { c } else { '?' };
    let mut text: String = reason.chars().take(LONGEST).map(visible).collect();
    if reason.chars().count() > LONGEST {
        text.push_str("...");
    }
    text
}

/// The texts of the `Warning` headers.
pub fn warnings(missing: &[Missing]) -> Vec<String> {
    let line = |it: &Missing| format!("the metrics of cluster {} are missing: {}", it.cluster, short(&it.reason));
    let mut lines: Vec<String> = missing.iter().take(NAMED).map(line).collect();
    let more = missing.len().saturating_sub(NAMED);
    if more > 0 {
        lines.push(format!("the metrics of {more} more clusters are missing"));
    }
    lines
}

/// The error of a request that no member answered.
pub fn nothing(missing: &[Missing]) -> Status {
    let reasons: Vec<String> =
        missing.iter().take(NAMED).map(|it| format!("{}: {}", it.cluster, short(&it.reason))).collect();
    let more = match missing.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let message = format!("no member cluster answered: {}{more}", reasons.join("; "));
    Status::failure(StatusReason::ServiceUnavailable, message)
}

/// The error if no responding member has the object: `absent` if all of them responded. Otherwise the object or metric
/// may exist in a member that did not.
pub fn absent_or_unknown(absent: Status, missing: &[Missing]) -> Status {
    if missing.is_empty() {
        return absent;
    }
    let unknown = nothing(missing);
    let message = unknown.message.replacen("no member cluster answered", "clusters did not answer", 1);
    Status::failure(StatusReason::ServiceUnavailable, format!("{}; {message}", absent.message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(count: usize) -> Vec<Missing> {
        (0..count).map(|n| Missing { cluster: format!("m{n}"), reason: "no answer within 10 s".to_owned() }).collect()
    }

    #[test]
    fn clusters_and_reasons_are_named() {
        assert_eq!(warnings(&[]), Vec::<String>::new());
        assert_eq!(warnings(&missing(1)), ["the metrics of cluster m0 are missing: no answer within 10 s"]);
        let many = warnings(&missing(25));
        assert_eq!((many.len(), many[10].as_str()), (11, "the metrics of 15 more clusters are missing"));
        let unprintable = [Missing { cluster: "m".to_owned(), reason: format!("ä\n{}", "x".repeat(500)) }];
        let text = &warnings(&unprintable)[0];
        assert!(text.is_ascii() && text.len() < 300 && text.contains("??xx") && text.ends_with("..."), "{text}");
    }

    #[test]
    fn not_found_needs_every_response() {
        let absent = Status::not_found("metrics.k8s.io", "pods", "x");
        assert_eq!(absent_or_unknown(absent.clone(), &[]), absent);
        let unknown = absent_or_unknown(absent, &missing(1));
        assert_eq!(unknown.code, 503);
        let text = "pods.metrics.k8s.io \"x\" not found; clusters did not answer: m0: no answer within 10 s";
        assert_eq!(unknown.message, text);
    }
}
