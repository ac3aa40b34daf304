//! The objects of a list at one revision, held once for all the responses and watches that begin with them, and the bytes
//! that such responses send, produced once for those that are in the same place.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use apimachinery::Object;
use bytes::Bytes;
use parking_lot::Mutex;

use crate::limits::budget::{Accounts, PIECE};

pub(crate) const TAIL: &[u8] = b"]}\n";

/// Objects in the order of a list.
#[derive(Default)]
pub struct Snapshot {
    items: Vec<Arc<Object>>,
    /// Bytes of objects that only this list refers to.
    converted: usize,
    /// By how their items begin; `None` where the list is one response's own.
    sent: Option<Mutex<HashMap<Vec<u8>, Weak<Sent>>>>,
}

impl Snapshot {
    /// A list that other responses share.
    pub fn shared(items: Vec<Arc<Object>>) -> Self {
        Self { items, converted: 0, sent: Some(Mutex::default()) }
    }

    /// The list of one response.
    pub fn own(items: Vec<Arc<Object>>) -> Self {
        Self { items, converted: 0, sent: None }
    }

    /// The list with the items in another form, where they have one.
    ///
    /// # Errors
    /// The first one of `form`.
    pub fn converted<E>(self: Arc<Self>, form: impl Fn(&Object) -> Result<Option<Object>, E>) -> Result<Arc<Self>, E> {
        let mut own: Option<Self> = None;
        for (position, item) in self.items.iter().enumerate() {
            match (form(item)?, &mut own) {
                (None, None) => {}
                (None, Some(own)) => own.items.push(Arc::clone(item)),
                (Some(object), own) => {
                    let own = own.get_or_insert_with(|| Self::own(self.items[..position].to_vec()));
                    own.converted += object.size();
                    own.items.push(object.shared());
                }
            }
        }
        Ok(own.map_or(self, Arc::new))
    }

    /// Bytes that the list takes, without the objects that others refer to.
    pub fn size(&self) -> usize {
        self.converted + size_of_val(self.items.as_slice())
    }

    /// Whether other responses share the encoded items.
    pub fn is_shared(&self) -> bool {
        self.sent.is_some()
    }

    /// The encoded list, whose items lack the beginning `implied`.
    pub(crate) fn sent(self: &Arc<Self>, implied: Vec<u8>) -> Arc<Sent> {
        let Some(known) = &self.sent else { return Arc::new(Sent::new(self, implied)) };
        let mut known = known.lock();
        if let Some(found) = known.get(&implied).and_then(Weak::upgrade) {
            return found;
        }
        let sent = Arc::new(Sent::new(self, implied.clone()));
        known.insert(implied, Arc::downgrade(&sent));
        sent
    }
}

impl Deref for Snapshot {
    type Target = [Arc<Object>];

    fn deref(&self) -> &Self::Target {
        &self.items
    }
}

/// A list as responses send it: everything after the bracket that opens the items.
pub(crate) struct Sent {
    list: Arc<Snapshot>,
    /// How items begin that do not repeat the kind of the list; empty when items are sent as they are.
    implied: Vec<u8>,
    pub size: u64,
    /// Those that are in flight, by their first item.
    pieces: Mutex<HashMap<usize, Weak<Piece>>>,
}

impl Sent {
    fn new(list: &Arc<Snapshot>, implied: Vec<u8>) -> Self {
        let commas = list.len().saturating_sub(1);
        let bytes: usize = list.iter().map(|item| item.size() - skipped(item, &implied)).sum();
        let size = (bytes + commas + TAIL.len()) as u64;
        Self { list: Arc::clone(list), implied, size, pieces: Mutex::default() }
    }

    /// The piece that begins with an item, and the item after it. Responses that are at the same item share the bytes;
    /// they count in the accounts of the first.
    pub fn piece(&self, first: usize, accounts: Option<&Arc<Accounts>>) -> (Bytes, usize) {
        let piece = {
            let mut pieces = self.pieces.lock();
            match pieces.get(&first).and_then(Weak::upgrade) {
                Some(found) => found,
                None => {
                    let mut bytes = Vec::with_capacity(PIECE + PIECE / 4);
                    let next = self.write(first, &mut bytes);
                    let piece = Arc::new(Piece::new(bytes, next, accounts));
                    pieces.insert(first, Arc::downgrade(&piece));
                    piece
                }
            }
        };
        let next = piece.next;
        (Bytes::from_owner(Shared(piece)), next)
    }

    /// Writes items until there are enough bytes for a piece; answers the next item.
    pub fn write(&self, first: usize, out: &mut Vec<u8>) -> usize {
        let mut next = first;
        while out.len() < PIECE {
            let Some(item) = self.list.get(next) else {
                out.extend_from_slice(TAIL);
                return next + 1;
            };
            if next > 0 {
                out.push(b',');
            }
            let (json, skipped) = (item.json(), skipped(item, &self.implied));
            if skipped > 0 {
                out.push(b'{');
                out.extend_from_slice(&json[skipped + 1..]);
            } else {
                out.extend_from_slice(&json);
            }
            next += 1;
        }
        next
    }

    pub fn is_shared(&self) -> bool {
        self.list.is_shared()
    }
}

/// Bytes of an item that are not sent: its first members, except the opening brace.
fn skipped(item: &Object, implied: &[u8]) -> usize {
    if item.begins_with(implied) { implied.len() - 1 } else { 0 }
}

/// A part of a list in flight to some clients.
struct Piece {
    bytes: Vec<u8>,
    next: usize,
    accounts: Option<Arc<Accounts>>,
}

impl Piece {
    fn new(bytes: Vec<u8>, next: usize, accounts: Option<&Arc<Accounts>>) -> Self {
        let accounts = accounts.cloned();
        if let Some(accounts) = &accounts {
            accounts.user.send(bytes.len());
            accounts.server.send(bytes.len());
        }
        Self { bytes, next, accounts }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if let Some(accounts) = &self.accounts {
            accounts.user.sent(self.bytes.len());
            accounts.server.sent(self.bytes.len());
        }
    }
}

struct Shared(Arc<Piece>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.0.bytes
    }
}
