//! LZ4 blocks: sequences of literals and of copies of earlier bytes, which may be those of the sample.

/// The shortest copy that the format has.
const SHORTEST: usize = 4;
/// The last bytes of a block are literals.
const LITERAL_END: usize = 5;
/// No copy begins among so many last bytes.
const COPY_END: usize = 12;
/// The farthest copy.
const FARTHEST: usize = u16::MAX as usize;
/// A length that does not fit into its half of the token.
const LONG: usize = 15;
/// Bytes in a row that are like no others: each doubling of them lengthens the steps.
const PATIENCE: u32 = 6;

const BITS: u32 = 11;
const SLOTS: usize = 1 << BITS;

/// Where texts were seen, by their hash: those of the sample, and those of the document in hand. Reused for all
/// documents, because clearing it would cost more than compressing a small one.
#[derive(Debug)]
pub(crate) struct Positions {
    /// One more than a position in the sample; 0: none.
    sample: Box<[u16; SLOTS]>,
    /// `base` more than a position in the document; those below are of earlier documents.
    document: Box<[u32; SLOTS]>,
    base: u32,
}

impl Positions {
    /// Reads a sample of at most 64 KiB; what follows is ignored.
    pub fn of(sample: &[u8]) -> Self {
        let mut table = Box::new([0; SLOTS]);
        for (next, text) in (1..=u16::MAX).zip(sample.windows(8)) {
            if let Some(text) = text.first_chunk() {
                table[slot(u64::from_le_bytes(*text))] = next;
            }
        }
        Self { sample: table, document: Box::new([0; SLOTS]), base: 1 }
    }

    /// Forgets the texts of earlier documents, where the next one has this length.
    fn begin(&mut self, length: u32) {
        if self.base.checked_add(length).is_none() {
            self.document.fill(0);
            self.base = 1;
        }
    }

    /// Where a text was seen last, as an index of the sample and the document behind it, which begins at `start`; it is
    /// now at `at`.
    fn replace(&mut self, text: u64, at: usize, start: usize) -> Option<usize> {
        let (slot, position) = (slot(text), self.base + (at - start) as u32);
        let seen = std::mem::replace(&mut self.document[slot], position);
        match seen.checked_sub(self.base) {
            Some(seen) => Some(start + seen as usize),
            None => usize::from(self.sample[slot]).checked_sub(1),
        }
    }
}

/// The place of a text's first six bytes in a table. Documents in JSON share too many shorter ones.
fn slot(text: u64) -> usize {
    ((text << 16).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - BITS)) as usize
}

fn text(all: &[u8], at: usize) -> Option<u64> {
    all.get(at..)?.first_chunk().map(|text| u64::from_le_bytes(*text))
}

/// The block for the document in `all`, less than 2 GiB from `start` on. The bytes before it are the sample, of which
/// `positions` are.
pub(crate) fn compress(all: &[u8], start: usize, positions: &mut Positions) -> Box<[u8]> {
    let mut out = Vec::with_capacity(64 + (all.len() - start) / 4);
    positions.begin((all.len() - start) as u32);
    let copies_end = all.len().saturating_sub(COPY_END);
    let (mut literals, mut at, mut misses) = (start, start, 1_u32 << PATIENCE);
    while at < copies_end
        && let Some(here) = text(all, at)
    {
        let seen = positions.replace(here, at, start).filter(|seen| at - seen <= FARTHEST);
        let found = seen.map(|seen| (seen, common(all, seen, at))).filter(|(_, length)| *length >= SHORTEST);
        let Some((mut from, mut length)) = found else {
            at += (misses >> PATIENCE) as usize;
            misses += 1;
            continue;
        };
        misses = 1 << PATIENCE;
        // Literals before it may be part of the copy.
        while at > literals && from > 0 && all[at - 1] == all[from - 1] {
            (at, from, length) = (at - 1, from - 1, length + 1);
        }
        sequence(&mut out, &all[literals..at], Some((at - from, length)));
        at += length;
        literals = at;
        // The end of a copy is often the beginning of another one.
        if let Some(before) = text(all, at - 2) {
            positions.replace(before, at - 2, start);
        }
    }
    positions.base += (all.len() - start) as u32;
    sequence(&mut out, &all[literals..], None);
    out.into_boxed_slice()
}

/// How many bytes at both places are the same, without the end of the block.
fn common(all: &[u8], earlier: usize, at: usize) -> usize {
    let end = all.len() - LITERAL_END;
    let (Some(a), Some(b)) = (all.get(earlier..end), all.get(at..end)) else { return 0 };
    let (wide, _) = b.as_chunks::<8>();
    let mut same = 0;
    for (x, y) in a.as_chunks::<8>().0.iter().zip(wide) {
        let differ = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differ != 0 {
            return same + (differ.trailing_zeros() / 8) as usize;
        }
        same += 8;
    }
    same + a[same..].iter().zip(&b[same..]).take_while(|(x, y)| x == y).count()
}

/// Appends literals and a copy, given by its distance and its length.
fn sequence(out: &mut Vec<u8>, literals: &[u8], copy: Option<(usize, usize)>) {
    let copied = copy.map_or(0, |(_, length)| length - SHORTEST);
    let token = (literals.len().min(LONG) << 4) | copied.min(LONG);
    out.push(token as u8);
    rest_of_length(out, literals.len());
    out.extend_from_slice(literals);
    if let Some((distance, _)) = copy {
        out.extend_from_slice(&(distance as u16).to_le_bytes());
        rest_of_length(out, copied);
    }
}

fn rest_of_length(out: &mut Vec<u8>, length: usize) {
    let Some(mut rest) = length.checked_sub(LONG) else { return };
    while rest >= 255 {
        out.push(255);
        rest -= 255;
    }
    out.push(rest as u8);
}
