//! The resource versions of several members as one text, and continue tokens that lead from one member to the next. The
//! formats are upstream's, so that they stay valid when a client moves to the other server.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

/// Versions by cluster.
pub type Versions = BTreeMap<String, String>;

/// Encodes the versions of several members as one text; without versions it is empty.
pub fn encode(versions: &Versions) -> String {
    if versions.is_empty() {
        return String::new();
    }
    URL_SAFE_NO_PAD.encode(serde_json::json!(versions).to_string())
}

/// The meaning of the parameter `resourceVersion`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Since {
    /// The newest state. Upstream treats malformed text the same.
    Newest,
    /// Any state, `0`.
    Any,
    Each(Versions),
}

impl Since {
    pub fn parse(text: &str) -> Self {
        if text == "0" {
            return Self::Any;
        }
        let decoded = URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        decoded.map_or(Self::Newest, Self::Each)
    }

    /// The parameter for one member.
    pub fn of(&self, cluster: &str) -> Option<String> {
        match self {
            Self::Newest => None,
            Self::Any => Some("0".to_owned()),
            Self::Each(versions) => versions.get(cluster).cloned(),
        }
    }

    /// The versions that a response begins with.
    pub fn versions(&self) -> Versions {
        match self {
            Self::Each(versions) => versions.clone(),
            _ => Versions::new(),
        }
    }
}

/// The start of the next page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Token {
    /// The versions of all pages, encoded.
    pub rv: String,
    /// The member that is being listed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster: String,
    /// The member's own token; empty at its first page.
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_token: String,
}

impl Token {
    /// `None` for malformed tokens.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        serde_json::from_slice(&bytes).ok().filter(|token: &Self| !token.cluster.is_empty())
    }

    pub fn encode(&self) -> String {
        // Serde writes the members as they are declared, which is upstream's order.
        URL_SAFE_NO_PAD.encode(serde_json::to_string(self).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_several_members_are_one() {
        let of = |pairs: &[(&str, &str)]| -> Versions {
            pairs.iter().map(|(cluster, version)| ((*cluster).to_owned(), (*version).to_owned())).collect()
        };
        let versions = of(&[("member2", "1321"), ("member1", "1321")]);
        let text = encode(&versions);
        assert_eq!(text, "eyJtZW1iZXIxIjoiMTMyMSIsIm1lbWJlcjIiOiIxMzIxIn0");
        let since = Since::parse(&text);
        assert_eq!((since.of("member2").as_deref(), since.of("member3")), (Some("1321"), None));
        assert_eq!(since.versions(), versions);
        for (text, expected) in
            [("", Since::Newest), ("0", Since::Any), ("7", Since::Newest), ("e30", Since::Each(of(&[])))]
        {
            assert_eq!(Since::parse(text), expected, "{text}");
        }
        assert_eq!(encode(&of(&[])), "");
    }

    #[test]
    fn continue_tokens_round_trip() {
        let token = Token { rv: "eyJ9".into(), cluster: "member1".into(), continue_token: "abc".into() };
        let text = token.encode();
        assert_eq!(URL_SAFE_NO_PAD.decode(&text).unwrap(), br#"{"rv":"eyJ9","cluster":"member1","continue":"abc"}"#);
        assert_eq!(Token::parse(&text), Some(token));
        let first = Token { cluster: "member2".into(), ..Token::default() };
        assert_eq!(URL_SAFE_NO_PAD.decode(first.encode()).unwrap(), br#"{"rv":"","cluster":"member2"}"#);
        for nonsense in ["", "abc", "e30", "!"] {
            assert_eq!(Token::parse(nonsense), None, "{nonsense}");
        }
    }
}
