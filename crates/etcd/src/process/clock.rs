//! The clocks of one etcd: its time of day jumps, and its monotonic clock jumps forward.
//!
//! Go reads both through `clock_gettime` of the vDSO, code that the kernel maps into each process. A process has a copy of
//! its own of each page that is written to, so the function can be replaced in one etcd alone: by the system call and the
//! addition of an offset, which the test changes at any time. Linux on x86-64 only.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use super::Process;

/// Replaces `clock_gettime(clock, result)`. The offsets, in seconds, follow the code.
const CODE: [u8; 40] = [
    0xb8, 0xe4, 0x00, 0x00, 0x00, // mov eax, 228 (clock_gettime)
    0x0f, 0x05, // syscall
    0x83, 0xff, 0x01, // cmp edi, 1 (CLOCK_MONOTONIC)
    0x74, 0x0f, // je monotonic
    0x85, 0xff, // test edi, edi (CLOCK_REALTIME)
    0x75, 0x16, // jne end
    0x48, 0x8b, 0x15, 0x11, 0x00, 0x00, 0x00, // mov rdx, [time_of_day]
    0x48, 0x01, 0x16, // add [rsi], rdx
    0xc3, // ret
    0x48, 0x8b, 0x15, 0x0e, 0x00, 0x00, 0x00, // monotonic: mov rdx, [elapsed]
    0x48, 0x01, 0x16, // add [rsi], rdx
    0xc3, // ret
    0xc3, 0x90, // end: ret
];
const TIME_OF_DAY: u64 = CODE.len() as u64;
const ELAPSED: u64 = TIME_OF_DAY + 8;
const REPLACEMENT: u64 = ELAPSED + 8;
/// The function of the kernel.
const FUNCTION: &[u8] = b"__vdso_clock_gettime";
/// The type of the section with the symbols that are visible to other programs (`SHT_DYNSYM`).
const DYNAMIC_SYMBOLS: u64 = 11;
/// Attempts to find the process outside of the function.
const ATTEMPTS: usize = 1000;

/// The clocks of a running etcd.
#[derive(Debug)]
pub struct Clock {
    memory: File,
    function: u64,
}

impl Process {
    /// Its clocks, which are right at first.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] on other systems than Linux on x86-64, and without the right to write to the process's
    /// memory; when the process has ended.
    pub fn clock(&self) -> Result<Clock> {
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            return Err(ErrorKind::Unsupported.into());
        }
        let directory = PathBuf::from(format!("/proc/{}", self.id()));
        let mapped = mapped(&std::fs::read_to_string(directory.join("maps"))?).ok_or(ErrorKind::Unsupported)?;
        let memory = File::options().read(true).write(true).open(directory.join("mem"));
        // Sandboxes may keep processes out of each other's memory.
        let memory = memory.map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => ErrorKind::Unsupported.into(),
            _ => error,
        })?;
        let length = usize::try_from(mapped.end - mapped.start).map_err(Error::other)?;
        let mut image = vec![0; length];
        memory.read_exact_at(&mut image, mapped.start)?;
        let function = symbol(&image, FUNCTION).ok_or(ErrorKind::Unsupported)?;
        if function.end - function.start < REPLACEMENT {
            return Err(ErrorKind::Unsupported.into());
        }
        let clock = Clock { memory, function: mapped.start + function.start };
        let start = usize::try_from(function.start).map_err(Error::other)?;
        if image.get(start..).is_some_and(|code| code.starts_with(&CODE)) {
            return Ok(clock);
        }
        let replacement = [&CODE[..], &[0; 16]].concat();
        for _ in 0..ATTEMPTS {
            self.signal("-STOP")?;
            let outside = self.is_outside(&mapped);
            if let Ok(true) = outside {
                clock.memory.write_all_at(&replacement, clock.function)?;
            }
            self.signal("-CONT")?;
            if outside? {
                return Ok(clock);
            }
        }
        Err(ErrorKind::TimedOut.into())
    }

    /// Whether every thread is stopped outside of the range.
    fn is_outside(&self, range: &Range<u64>) -> Result<bool> {
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.id()))? {
            let directory = thread?.path();
            let is_stopped = std::fs::read_to_string(directory.join("status"))?.contains("State:\tT");
            // The last field is the address of the next instruction; a running thread has none.
            let place = std::fs::read_to_string(directory.join("syscall"))?;
            let next = place.split_whitespace().next_back().and_then(|text| text.strip_prefix("0x"));
            match next.and_then(|next| u64::from_str_radix(next, 16).ok()) {
                Some(next) if is_stopped && !range.contains(&next) => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }
}

impl Clock {
    /// Makes the time of day wrong by this many seconds.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn set_time_of_day(&self, wrong_by: i64) -> Result<()> {
        self.memory.write_all_at(&wrong_by.to_le_bytes(), self.function + TIME_OF_DAY)
    }

    /// Lets the monotonic clock jump by whole seconds.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn advance(&self, by: Duration) -> Result<()> {
        let mut elapsed = [0; 8];
        self.memory.read_exact_at(&mut elapsed, self.function + ELAPSED)?;
        let elapsed = u64::from_le_bytes(elapsed) + by.as_secs();
        self.memory.write_all_at(&elapsed.to_le_bytes(), self.function + ELAPSED)
    }
}

/// Where the vDSO is in a process, from `/proc/PID/maps`.
fn mapped(maps: &str) -> Option<Range<u64>> {
    let (range, _) = maps.lines().find(|line| line.ends_with("[vdso]"))?.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
}

/// The place of a function in an ELF image.
fn symbol(image: &[u8], name: &[u8]) -> Option<Range<u64>> {
    // Sections are described by entries of 64 bytes, symbols by entries of 24.
    let (sections, count) = (number(image, 0x28, 8)?, number(image, 0x3c, 2)?);
    let field = |section: u64, at: u64, size| number(image, sections + 64 * section + at, size);
    let symbols = (0..count).find(|section| field(*section, 4, 4) == Some(DYNAMIC_SYMBOLS))?;
    let names = field(field(symbols, 0x28, 4)?, 0x18, 8)?;
    let (start, size) = (field(symbols, 0x18, 8)?, field(symbols, 0x20, 8)?);
    (0..size / 24).map(|entry| start + 24 * entry).find_map(|entry| {
        let text = image.get(usize::try_from(names + number(image, entry, 4)?).ok()?..)?;
        let (is_it, address) = (text.strip_prefix(name)?.first() == Some(&0), number(image, entry + 8, 8)?);
        is_it.then_some(address..address + number(image, entry + 16, 8)?)
    })
}

fn number(image: &[u8], at: u64, size: usize) -> Option<u64> {
    let bytes = image.get(usize::try_from(at).ok()?..)?.get(..size)?;
    Some(bytes.iter().rev().fold(0, |all, byte| (all << 8) | u64::from(*byte)))
}
