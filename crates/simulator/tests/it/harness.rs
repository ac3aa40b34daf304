//! A member of a test, on virtual time.

use std::sync::Arc;

use simulator::{Access, Member, MemberOptions};
use storage::memory::MemoryStore;
use world::World;

pub async fn member(options: MemberOptions) -> Member {
    let world = World::simulated("2026-11-21T00:00:00Z".parse().expect("a time"), 3);
    Member::start(options, Arc::new(MemoryStore::new()), world, Access::default()).await.expect("the member starts")
}
