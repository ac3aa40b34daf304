//! `--operation-scope`: whether a command reads the control plane, the members or both.

use std::str::FromStr;

use crate::error::Error;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OperationScope {
    /// The control plane only.
    #[default]
    Karmada,
    Members,
    All,
}

impl FromStr for OperationScope {
    type Err = String;

    /// Exact and case-sensitive, as upstream; an empty text means the default.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "" | "karmada" => Ok(Self::Karmada),
            "members" => Ok(Self::Members),
            "all" => Ok(Self::All),
            other => Err(format!("not support OperationScope: {other}")),
        }
    }
}

impl std::fmt::Display for OperationScope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Karmada => "karmada",
            Self::Members => "members",
            Self::All => "all",
        })
    }
}

/// The value of `--operation-scope`.
pub fn parse(text: &str) -> Result<OperationScope, Error> {
    text.parse()
        .map_err(|why| Error::Flag(format!("invalid argument {text:?} for \"-s, --operation-scope\" flag: {why}")))
}

impl OperationScope {
    pub fn includes_karmada(self) -> bool {
        self != Self::Members
    }

    pub fn includes_members(self) -> bool {
        self != Self::Karmada
    }
}
