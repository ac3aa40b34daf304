//! The tokens of `--token-auth-file` follow the file.

use std::path::PathBuf;

use ::apiserver::auth::authn::StaticTokens;
use anyhow::Context as _;
use futures::future::BoxFuture;

use super::read;
use super::reload::{Followed, Kind, LoadedContent};

const FLAG: &str = "--token-auth-file";

struct File {
    file: PathBuf,
    tokens: StaticTokens,
    loaded: LoadedContent,
}

/// `tokens` are those that the file had at the start.
pub(super) fn followed(file: PathBuf, tokens: StaticTokens) -> Box<dyn Followed> {
    Box::new(File { file, tokens, loaded: LoadedContent::default() })
}

impl Followed for File {
    fn kind(&self) -> Kind {
        Kind::Tokens
    }

    fn file(&self) -> PathBuf {
        self.file.clone()
    }

    fn reload(&mut self) -> BoxFuture<'_, anyhow::Result<bool>> {
        Box::pin(async move {
            let content = read(FLAG, &self.file)?;
            if !self.loaded.takes(&content) {
                return Ok(false);
            }
            let attempt = || format!("{FLAG} {}", self.file.display());
            let text = String::from_utf8(content).with_context(attempt)?;
            self.tokens.replace(&text).with_context(attempt)?;
            Ok(true)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_unusable_file_changes_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("tokens");
        let write = |text: &str| std::fs::write(&path, text).expect("written");
        write("a,ann,1\n");
        let tokens = StaticTokens::parse("").expect("no tokens");
        let mut file = followed(path.clone(), tokens.clone());
        assert!(file.reload().await.expect("usable"));
        assert!(!file.reload().await.expect("unchanged"));
        write("b\n");
        let why = format!("{:#}", file.reload().await.expect_err("too few columns"));
        assert!(why.starts_with("--token-auth-file") && why.contains("at least 3 columns"), "{why}");
        assert!(!file.reload().await.expect("an unusable file is tried once"));
        write("b,bob,2\n");
        assert!(file.reload().await.expect("usable"));
    }
}
