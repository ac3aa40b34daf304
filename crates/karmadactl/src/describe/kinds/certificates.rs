//! CertificateSigningRequests, with the subject and the names in the request.

use apimachinery::age::human_duration;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::oid_registry::{
    OID_X509_POSTAL_CODE as POSTAL_CODE, OID_X509_SERIALNUMBER as SERIAL_NUMBER,
    OID_X509_STREET_ADDRESS as STREET_ADDRESS,
};
use x509_parser::prelude::FromDer;
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

use super::super::lines::Lines;
use super::{items, pairs, rfc1123, text};

pub fn request(lines: &mut Lines, object: &Value) {
    let (metadata, spec) = (&object["metadata"], &object["spec"]);
    lines.text(0, &format!("Name:\t{}", text(&metadata["name"])));
    lines.text(0, &format!("Labels:\t{}", pairs(&metadata["labels"])));
    // The manifest of a client-side apply ends with a line feed.
    let annotations = format!("Annotations:\t{}", pairs(&metadata["annotations"]));
    annotations.split('\n').for_each(|line| lines.text(0, line));
    lines.text(0, &format!("CreationTimestamp:\t{}", rfc1123(&text(&metadata["creationTimestamp"]))));
    lines.text(0, &format!("Requesting User:\t{}", text(&spec["username"])));
    lines.text(0, &format!("Signer:\t{}", text(&spec["signerName"])));
    if let Some(seconds) = spec["expirationSeconds"].as_i64() {
        lines.text(0, &format!("Requested Duration:\t{}", human_duration(seconds)));
    }
    lines.text(0, &format!("Status:\t{}", state(&object["status"])));
    // A request that cannot be read has no subject; its other lines are still of use.
    let der = der(&text(&spec["request"])).unwrap_or_default();
    let Ok((_, request)) = X509CertificationRequest::from_der(&der) else { return };
    subject(lines, &request.certification_request_info.subject);
    alternative_names(lines, &request);
}

fn der(request: &str) -> Option<Vec<u8>> {
    let pem = BASE64_STANDARD.decode(request).ok()?;
    x509_parser::pem::parse_x509_pem(&pem).ok().map(|(_, block)| block.contents)
}

fn state(status: &Value) -> String {
    let has = |kind: &str| items(&status["conditions"]).any(|condition| condition["type"] == kind);
    let mut state = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (_, true) => "Approved",
        _ => "Pending",
    }
    .to_owned();
    if has("Failed") {
        state.push_str(",Failed");
    }
    if status["certificate"].as_str().is_some_and(|certificate| !certificate.is_empty()) {
        state.push_str(",Issued");
    }
    state
}

/// A label and its values, one a line; nothing without values.
fn list(lines: &mut Lines, label: &str, values: &[String]) {
    for (position, value) in values.iter().enumerate() {
        let label = if position == 0 { format!("{label}:") } else { String::new() };
        lines.text(0, &format!("\t{label}\t{value}"));
    }
}

fn subject(lines: &mut Lines, subject: &X509Name<'_>) {
    let first = |mut values: Vec<String>| if values.is_empty() { String::new() } else { values.swap_remove(0) };
    lines.text(0, "Subject:");
    lines.text(0, &format!("\tCommon Name:\t{}", first(texts(subject.iter_common_name()))));
    lines.text(0, &format!("\tSerial Number:\t{}", first(texts(subject.iter_by_oid(&SERIAL_NUMBER)))));
    list(lines, "Organization", &texts(subject.iter_organization()));
    list(lines, "Organizational Unit", &texts(subject.iter_organizational_unit()));
    list(lines, "Country", &texts(subject.iter_country()));
    list(lines, "Locality", &texts(subject.iter_locality()));
    list(lines, "Province", &texts(subject.iter_state_or_province()));
    list(lines, "StreetAddress", &texts(subject.iter_by_oid(&STREET_ADDRESS)));
    list(lines, "PostalCode", &texts(subject.iter_by_oid(&POSTAL_CODE)));
}

fn texts<'a>(values: impl Iterator<Item = &'a AttributeTypeAndValue<'a>>) -> Vec<String> {
    values.filter_map(|value| value.as_str().map(str::to_owned).ok()).collect()
}

fn alternative_names(lines: &mut Lines, request: &X509CertificationRequest<'_>) {
    let extensions = request.requested_extensions().into_iter().flatten();
    let names: Vec<&GeneralName<'_>> = extensions
        .filter_map(|extension| match extension {
            ParsedExtension::SubjectAlternativeName(names) => Some(&names.general_names),
            _ => None,
        })
        .flatten()
        .collect();
    let of = |is: fn(&GeneralName<'_>) -> bool| names.iter().filter(|name| is(name)).map(|name| string(name)).collect();
    let kinds: [(&str, Vec<String>); 4] = [
        ("DNS Names", of(|name| matches!(name, GeneralName::DNSName(_)))),
        ("Email Addresses", of(|name| matches!(name, GeneralName::RFC822Name(_)))),
        ("URIs", of(|name| matches!(name, GeneralName::URI(_)))),
        ("IP Addresses", of(|name| matches!(name, GeneralName::IPAddress(_)))),
    ];
    if kinds.iter().any(|(_, names)| !names.is_empty()) {
        lines.text(0, "Subject Alternative Names:");
        kinds.iter().for_each(|(label, names)| list(lines, label, names));
    }
}

fn string(name: &GeneralName<'_>) -> String {
    match name {
        GeneralName::DNSName(text) | GeneralName::RFC822Name(text) | GeneralName::URI(text) => (*text).to_owned(),
        GeneralName::IPAddress(bytes) => match (<[u8; 4]>::try_from(*bytes), <[u8; 16]>::try_from(*bytes)) {
            (Ok(bytes), _) => std::net::Ipv4Addr::from(bytes).to_string(),
            (_, Ok(bytes)) => std::net::Ipv6Addr::from(bytes).to_string(),
            _ => String::new(),
        },
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_latest_decision_is_shown() {
        let check = |kinds: &[&str], certificate: &str, expected: &str| {
            let conditions: Vec<Value> = kinds.iter().map(|kind| json!({"type": kind})).collect();
            assert_eq!(state(&json!({"conditions": conditions, "certificate": certificate})), expected);
        };
        check(&[], "", "Pending");
        check(&["Approved"], "", "Approved");
        check(&["Approved"], "x", "Approved,Issued");
        check(&["Approved", "Failed"], "", "Approved,Failed");
        check(&["Denied"], "", "Denied");
    }
}
