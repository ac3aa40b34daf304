//! Reads SQLite's log file (`store.sqlite-wal`) before SQLite does, to detect damage that SQLite treats as the end.
//!
//! The file is a header of 32 bytes and frames: 24 bytes of header and a page. The checksum in a frame covers all
//! frames before it. SQLite's recovery ends, without an error, at the first frame with a wrong checksum or salt, and
//! drops the rest. That is correct for a commit that was being written when the power failed. Each commit is synced
//! before the next one begins, so at most one commit at the end of the file is in that state. A wrong frame followed by
//! a commit and further frames of the same log is therefore damage: the later commits were acknowledged.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// Frames of one read: half a megabyte.
const BUFFER: usize = 1 << 19;

/// The contents of a log file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Log {
    /// Frames up to the last complete commit, which SQLite will recover.
    pub committed: u64,
    /// The first frame that does not fit, if anything follows the last one that does.
    pub broken: Option<Broken>,
    /// Commits that were acknowledged follow the frame that does not fit.
    pub acknowledged_beyond: bool,
}

/// The position at which a log file becomes invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Broken {
    /// Counted from 1; 0 is the header of the file.
    pub frame: u64,
    pub offset: u64,
}

/// Reads the log file; `None` if it is absent or empty.
pub(super) fn read(path: &Path) -> io::Result<Option<Log>> {
    match File::open(path) {
        Ok(file) => inspect(&mut BufReader::with_capacity(BUFFER, file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn inspect(file: &mut impl Read) -> io::Result<Option<Log>> {
    let mut header = [0; HEADER];
    let length = fill(file, &mut header)?;
    if length == 0 {
        return Ok(None);
    }
    let Some(mut chain) = Chain::new(&header) else {
        // The header is written within one sector and synced before a frame refers to it: frames behind a header that
        // does not fit were acknowledged.
        return Ok(Some(Log {
            committed: 0,
            broken: Some(Broken { frame: 0, offset: 0 }),
            acknowledged_beyond: length == HEADER && frames_follow(file)?,
        }));
    };
    let mut log = Log::default();
    let mut frame = vec![0; FRAME_HEADER + chain.page_size];
    let mut commit_beyond = false;
    for number in 1.. {
        let length = fill(file, &mut frame)?;
        if length < frame.len() {
            break;
        }
        if log.broken.is_none() && chain.accepts(&frame) {
            if commits(&frame) {
                log.committed = number;
            }
            continue;
        }
        let offset = HEADER as u64 + (number - 1) * frame.len() as u64;
        log.broken.get_or_insert(Broken { frame: number, offset });
        if chain.owns(&frame) {
            // A frame after a commit: that commit was synced before this frame was written.
            log.acknowledged_beyond |= commit_beyond;
            commit_beyond |= commits(&frame);
        }
    }
    Ok(Some(log))
}

/// Whether non-zero data follows: a new file has nothing after its header.
fn frames_follow(file: &mut impl Read) -> io::Result<bool> {
    let mut some = [0; FRAME_HEADER];
    Ok(fill(file, &mut some)? == some.len() && some.iter().any(|byte| *byte != 0))
}

/// Whether the frame is the last of a commit: it then names the size of the database.
fn commits(frame: &[u8]) -> bool {
    word(frame, 4) != 0
}

/// The common values of the frames of one generation of the log, and the checksum so far.
struct Chain {
    big_endian: bool,
    page_size: usize,
    salt: [u8; 8],
    sums: (u32, u32),
}

impl Chain {
    /// `None` if the header's own checksum does not fit.
    fn new(header: &[u8; HEADER]) -> Option<Self> {
        let magic = word(header, 0);
        let page_size = word(header, 8) as usize;
        if magic & !1 != 0x377f_0682 || !page_size.is_power_of_two() || !(512..=65_536).contains(&page_size) {
            return None;
        }
        let mut salt = [0; 8];
        salt.copy_from_slice(&header[16..24]);
        let mut chain = Self { big_endian: magic & 1 == 1, page_size, salt, sums: (0, 0) };
        chain.add(&header[..24]);
        (chain.sums == (word(header, 24), word(header, 28))).then_some(chain)
    }

    /// Whether the frame belongs to this generation: older ones, which it overwrites, have other salts.
    fn owns(&self, frame: &[u8]) -> bool {
        frame[8..16] == self.salt
    }

    /// Whether the frame is the next one, intact.
    fn accepts(&mut self, frame: &[u8]) -> bool {
        if !self.owns(frame) || word(frame, 0) == 0 {
            return false;
        }
        self.add(&frame[..8]);
        self.add(&frame[FRAME_HEADER..]);
        self.sums == (word(frame, 16), word(frame, 20))
    }

    fn add(&mut self, bytes: &[u8]) {
        let read = if self.big_endian { u32::from_be_bytes } else { u32::from_le_bytes };
        let (mut first, mut second) = self.sums;
        for pair in bytes.chunks_exact(8) {
            let half = |at: usize| read([pair[at], pair[at + 1], pair[at + 2], pair[at + 3]]);
            first = first.wrapping_add(half(0)).wrapping_add(second);
            second = second.wrapping_add(half(4)).wrapping_add(first);
        }
        self.sums = (first, second);
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Reads until the buffer is full or the file ends.
fn fill(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(some) => length += some,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log file with commits of these numbers of frames, and the offset of each frame.
    fn log(commits: &[usize]) -> Vec<u8> {
        let mut header = vec![0; HEADER];
        header[..4].copy_from_slice(&0x377f_0682_u32.to_be_bytes());
        header[8..12].copy_from_slice(&512_u32.to_be_bytes());
        header[16..24].copy_from_slice(b"salt1234");
        let mut chain = Chain { big_endian: false, page_size: 512, salt: *b"salt1234", sums: (0, 0) };
        chain.add(&header[..24]);
        let mut file = header;
        put_sums(&mut file, 24, chain.sums);
        for frames in commits {
            for n in 1..=*frames {
                let at = file.len();
                file.resize(at + FRAME_HEADER + 512, at as u8 | 1);
                file[at..at + 4].copy_from_slice(&(n as u32).to_be_bytes());
                let size = if n == *frames { 9_u32 } else { 0 };
                file[at + 4..at + 8].copy_from_slice(&size.to_be_bytes());
                file[at + 8..at + 16].copy_from_slice(b"salt1234");
                chain.add(&file[at..at + 8]);
                chain.add(&file[at + FRAME_HEADER..]);
                put_sums(&mut file, at + 16, chain.sums);
            }
        }
        file
    }

    fn put_sums(file: &mut [u8], at: usize, sums: (u32, u32)) {
        file[at..at + 4].copy_from_slice(&sums.0.to_be_bytes());
        file[at + 4..at + 8].copy_from_slice(&sums.1.to_be_bytes());
    }

    fn seen(file: &[u8]) -> (u64, Option<u64>, bool) {
        let log = inspect(&mut io::Cursor::new(file)).unwrap().unwrap_or_default();
        (log.committed, log.broken.map(|broken| broken.frame), log.acknowledged_beyond)
    }

    const FRAME: usize = FRAME_HEADER + 512;

    #[test]
    fn only_a_lost_commit_is_damage() {
        let file = log(&[2, 1, 3]);
        let cut = |length: usize| file[..length].to_vec();
        let flip = |at: usize| {
            let mut file = file.clone();
            file[at] ^= 0x10;
            file
        };
        let frame = |number: usize| HEADER + (number - 1) * FRAME;
        let mut stale = file.clone();
        stale[frame(4) + 8] ^= 1;
        stale[frame(5) + 8] ^= 1;
        stale[frame(6) + 8] ^= 1;
        for (what, file, expected) in [
            ("whole", file.clone(), (6, None, false)),
            ("empty", Vec::new(), (0, None, false)),
            ("cut in the header", cut(20), (0, Some(0), false)),
            ("cut in the last commit", cut(frame(6) + 5), (3, None, false)),
            ("cut between commits", cut(frame(4)), (3, None, false)),
            ("first frame of the last commit torn", flip(frame(4) + 100), (3, Some(4), false)),
            ("last frame torn", flip(frame(6) + 100), (3, Some(6), false)),
            ("a commit before the last", flip(frame(3) + 100), (2, Some(3), true)),
            ("the first frame", flip(frame(1) + 100), (0, Some(1), true)),
            ("the salt of a frame", flip(frame(1) + 9), (0, Some(1), true)),
            ("the header", flip(17), (0, Some(0), true)),
            ("frames of an older generation", stale, (3, Some(4), false)),
        ] {
            assert_eq!(seen(&file), expected, "{what}");
        }
    }

    #[test]
    fn damage_before_the_last_two_commits_is_always_seen() {
        let file = log(&[1, 2, 1, 1, 1]);
        let last_two = HEADER + 4 * FRAME;
        for bit in 0..last_two * 8 {
            let mut damaged = file.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let (committed, broken, beyond) = seen(&damaged);
            // Flips of unused bits: the header's checksum also covers the sequence number of checkpoints.
            assert!(beyond && broken.is_some() && committed < 4, "bit {bit}: {committed} {broken:?} {beyond}");
        }
    }
}
