//! `JsonSchema` without code. The schemas of `karmada-api` are files; its tests derive them from the types with schemars
//! and compare. Other builds need only that the compiler accepts the attributes.

#![warn(missing_docs)]

use proc_macro::TokenStream;

/// Accepts `#[schemars(...)]` and generates nothing.
#[proc_macro_derive(JsonSchema, attributes(schemars))]
pub fn json_schema(_: TokenStream) -> TokenStream {
    TokenStream::new()
}
