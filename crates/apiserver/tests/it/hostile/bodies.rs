//! The bodies of hostile requests.

/// kube-apiserver's bound on a body.
pub(super) const LIMIT: usize = 3 * 1024 * 1024;

/// `text` over and over, up to the size of the largest body.
pub(super) fn filled(head: &str, text: &str, tail: &str) -> String {
    let times = (LIMIT - head.len() - tail.len()) / text.len();
    format!("{head}{}{tail}", text.repeat(times))
}

/// `{"a":{"a":…}}`
pub(super) fn deep(levels: usize) -> String {
    format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels))
}

/// A ConfigMap of exactly so many bytes, most of them blanks between its fields.
pub(super) fn padded(name: &str, size: usize) -> String {
    let (head, tail) = (format!("{{\"metadata\":{{\"name\":\"{name}\"}},"), "\"data\":{\"k\":\"v\"}}");
    format!("{head}{}{tail}", " ".repeat(size - head.len() - tail.len()))
}

/// Members numbered from 0, as many as a body holds.
pub(super) fn numbered(head: &str, member: impl Fn(usize) -> String, tail: &str, max: usize) -> String {
    let mut text = head.to_owned();
    for number in 0..max {
        let next = member(number);
        if text.len() + next.len() + 1 + tail.len() > LIMIT {
            break;
        }
        if number > 0 {
            text.push(',');
        }
        text.push_str(&next);
    }
    text + tail
}

/// Each anchor is nine times the one before.
pub(super) fn laughs() -> String {
    let mut text = "a0: &a0 [lol,lol,lol,lol,lol,lol,lol,lol,lol]\n".to_owned();
    for level in 1..30 {
        let alias = format!("*a{}", level - 1);
        text += &format!("a{level}: &a{level} [{}]\n", [alias.as_str(); 9].join(","));
    }
    text
}

/// A protobuf field with bytes.
pub(super) fn field(number: u32, bytes: &[u8]) -> Vec<u8> {
    let mut text = varint(u64::from(number) << 3 | 2);
    text.extend(varint(bytes.len() as u64));
    text.extend_from_slice(bytes);
    text
}

pub(super) fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A document in its envelope.
pub(super) fn enveloped(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &meta), field(2, raw)].concat()
}

/// A CustomResourceDefinition whose schema has itself as `not`, so many levels deep: lengths are written from inside.
pub(super) fn deep_protobuf(levels: usize) -> Vec<u8> {
    // JSONSchemaProps.not = 28
    let mut schema = Vec::new();
    for _ in 0..levels {
        schema = field(28, &schema);
    }
    let version = field(4, &field(1, &schema));
    enveloped("apiextensions.k8s.io/v1", "CustomResourceDefinition", &field(2, &field(7, &version)))
}
