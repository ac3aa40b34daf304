//! The static token file: `token,user,uid,"group1,group2"`, one per line, groups optional.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use sha2::{Digest, Sha256};
use transport::Identity;

/// Why a token file cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the variants")]
pub enum TokenFileError {
    #[error("line {line} of the token file must have at least 3 columns (token, user name, user uid), found {found}")]
    Columns { line: usize, found: usize },
    #[error("line {line} of the token file has an empty token")]
    EmptyToken { line: usize },
    #[error("line {line} of the token file has a quote that does not end")]
    Quote { line: usize },
}

/// Keyed by digest, so that a lookup takes the same time regardless of how much of a token is correct. Clones share the
/// tokens.
#[derive(Clone, Default)]
pub struct StaticTokens(Arc<RwLock<Table>>);

type Table = HashMap<[u8; 32], Identity>;

impl StaticTokens {
    /// Parses kube-apiserver's CSV format: token, user name, UID and groups.
    /// # Errors
    /// The first invalid line.
    pub fn parse(text: &str) -> Result<Self, TokenFileError> {
        Ok(Self(Arc::new(RwLock::new(Self::table(text)?))))
    }

    /// Accepts the tokens of this text instead, from the next request on.
    ///
    /// # Errors
    /// The first invalid line; the present tokens stay then.
    pub fn replace(&self, text: &str) -> Result<(), TokenFileError> {
        *self.0.write() = Self::table(text)?;
        Ok(())
    }

    fn table(text: &str) -> Result<Table, TokenFileError> {
        let mut tokens = HashMap::new();
        for (number, line) in text.lines().enumerate() {
            let line_number = number + 1;
            if line.trim().is_empty() || line.trim_start().starts_with('#') {
                continue;
            }
            let columns = columns(line).ok_or(TokenFileError::Quote { line: line_number })?;
            let [token, user, uid, rest @ ..] = columns.as_slice() else {
                return Err(TokenFileError::Columns { line: line_number, found: columns.len() });
            };
            if token.is_empty() {
                return Err(TokenFileError::EmptyToken { line: line_number });
            }
            let groups = rest.first().map(String::as_str).unwrap_or_default();
            let groups = groups.split(',').map(str::trim).filter(|group| !group.is_empty());
            let identity = Identity {
                user: user.clone(),
                uid: uid.clone(),
                groups: groups.map(str::to_owned).collect(),
                extra: Vec::new(),
            };
            tokens.insert(Sha256::digest(token.as_bytes()).into(), identity);
        }
        Ok(tokens)
    }

    pub(super) fn get(&self, token: &str) -> Option<Identity> {
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        self.0.read().get(&digest).cloned()
    }
}

/// The columns of a CSV line; `None` if a quote does not end.
fn columns(line: &str) -> Option<Vec<String>> {
    let mut columns = vec![String::new()];
    let mut quoted = false;
    let mut characters = line.trim().chars().peekable();
    while let Some(character) = characters.next() {
        let column = columns.last_mut()?;
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                column.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => columns.push(String::new()),
            ' ' if !quoted && column.is_empty() => {}
            other => column.push(other),
        }
    }
    (!quoted).then_some(columns)
}
