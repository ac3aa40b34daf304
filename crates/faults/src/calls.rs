//! Replaces the C library's file functions for this program and its libraries.

use std::ffi::{CStr, OsStr, c_char, c_int, c_long, c_uint, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libc::{off64_t, size_t, ssize_t};

use crate::disk::{self, Call, Change, Turn};

/// References the functions, so that the linker uses these.
pub(crate) fn link() {
    let functions: [*const (); 16] = [
        open as *const (),
        open64 as *const (),
        close as *const (),
        read as *const (),
        pread64 as *const (),
        write as *const (),
        pwrite64 as *const (),
        fsync as *const (),
        fdatasync as *const (),
        ftruncate64 as *const (),
        mmap64 as *const (),
        fcntl as *const (),
        fcntl64 as *const (),
        unlink as *const (),
        rename as *const (),
        nanosleep as *const (),
    ];
    std::hint::black_box(functions);
}

fn fail(errno: c_int) -> c_int {
    // SAFETY: the location belongs to this thread.
    unsafe { *libc::__errno_location() = errno };
    -1
}

fn int(outcome: Result<c_int, c_int>) -> c_int {
    outcome.unwrap_or_else(fail)
}

fn long(outcome: Result<ssize_t, c_int>) -> ssize_t {
    outcome.unwrap_or_else(|errno| fail(errno) as ssize_t)
}

/// # Safety
/// `path` ends with a zero.
unsafe fn path<'a>(path: *const c_char) -> &'a Path {
    // SAFETY: by contract of the caller.
    Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()))
}

/// # Safety
/// As of `open(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open64(name: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    // SAFETY: the arguments are passed on.
    let call = || unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, name, flags, mode) } as c_int;
    // SAFETY: by contract.
    int(disk::open(unsafe { path(name) }, flags, call))
}

/// # Safety
/// As of `open(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open(name: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    // SAFETY: the same contract.
    unsafe { open64(name, flags, mode) }
}

/// # Safety
/// As of `close(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    disk::close(fd);
    // SAFETY: the arguments are passed on.
    unsafe { libc::syscall(libc::SYS_close, fd) as c_int }
}

/// # Safety
/// As of `read(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn read(fd: c_int, data: *mut c_void, length: size_t) -> ssize_t {
    // SAFETY: the arguments are passed on.
    let call = |_| (unsafe { libc::syscall(libc::SYS_read, fd, data, length) } as ssize_t, None);
    long(disk::on(fd, Call::Read, call))
}

/// # Safety
/// As of `pread(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pread64(fd: c_int, data: *mut c_void, length: size_t, offset: off64_t) -> ssize_t {
    // SAFETY: the arguments are passed on.
    let call = |_| (unsafe { libc::syscall(libc::SYS_pread64, fd, data, length, offset) } as ssize_t, None);
    long(disk::on(fd, Call::Read, call))
}

fn size(fd: c_int) -> u64 {
    // SAFETY: all bits zero is a value of the structure, which lives as long as the call.
    unsafe {
        let mut data: libc::stat = std::mem::zeroed();
        libc::fstat(fd, &raw mut data);
        data.st_size.cast_unsigned()
    }
}

/// The part of a write that ends with a sector of 512 bytes.
fn whole_sectors(offset: u64, length: usize) -> usize {
    length.saturating_sub(((offset + length as u64) % 512) as usize)
}

/// Writes with `call`, which receives the number of bytes.
///
/// # Safety
/// `data` has `length` bytes.
unsafe fn put(fd: c_int, data: *const c_void, length: size_t, offset: u64, call: impl Fn(size_t) -> c_long) -> ssize_t {
    let act = |turn| {
        let (length, errno) = match turn {
            Turn::Pass => (length, None),
            Turn::Tear(errno) => (whole_sectors(offset, length / 2), Some(errno)),
        };
        let written = call(length) as ssize_t;
        let change = usize::try_from(written).ok().filter(|_| disk::is_tracked(fd)).map(|written| {
            // SAFETY: so much was read from it.
            let data = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), written) };
            Change::Wrote { offset, data: data.to_vec() }
        });
        (errno.map_or(written, |errno| fail(errno) as ssize_t), change)
    };
    let kind = if disk::is_tracked(fd) && offset + length as u64 > size(fd) { Call::Grow } else { Call::Write };
    long(disk::on(fd, kind, act))
}

/// # Safety
/// As of `write(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, data: *const c_void, length: size_t) -> ssize_t {
    let offset = if disk::is_tracked(fd) {
        // SAFETY: it takes no pointers.
        unsafe { libc::syscall(libc::SYS_lseek, fd, 0, libc::SEEK_CUR) }
    } else {
        0
    };
    // SAFETY: the arguments are passed on.
    let call = |length: size_t| unsafe { libc::syscall(libc::SYS_write, fd, data, length) };
    // SAFETY: by contract.
    unsafe { put(fd, data, length, offset as u64, call) }
}

/// # Safety
/// As of `pwrite(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite64(fd: c_int, data: *const c_void, length: size_t, offset: off64_t) -> ssize_t {
    // SAFETY: the arguments are passed on.
    let call = |length: size_t| unsafe { libc::syscall(libc::SYS_pwrite64, fd, data, length, offset) };
    // SAFETY: by contract.
    unsafe { put(fd, data, length, offset as u64, call) }
}

/// The disk is a record: a real one need not be written.
fn sync(fd: c_int, number: c_long) -> c_int {
    let call = |_| match disk::is_tracked(fd) {
        true => (0, Some(Change::Synced)),
        // SAFETY: it takes no pointers.
        false => (unsafe { libc::syscall(number, fd) } as c_int, None),
    };
    int(disk::on(fd, Call::Sync, call))
}

/// # Safety
/// As of `fsync(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fsync(fd: c_int) -> c_int {
    sync(fd, libc::SYS_fsync)
}

/// # Safety
/// As of `fdatasync(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdatasync(fd: c_int) -> c_int {
    sync(fd, libc::SYS_fdatasync)
}

/// # Safety
/// As of `ftruncate(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ftruncate64(fd: c_int, length: off64_t) -> c_int {
    let call = |_| {
        // SAFETY: it takes no pointers.
        let result = unsafe { libc::syscall(libc::SYS_ftruncate, fd, length) } as c_int;
        (result, (result == 0).then_some(Change::Truncated { length: length as u64 }))
    };
    int(disk::on(fd, Call::Truncate, call))
}

/// # Safety
/// As of `mmap(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(
    place: *mut c_void,
    length: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off64_t,
) -> *mut c_void {
    // SAFETY: the arguments are passed on.
    let call = || unsafe { libc::syscall(libc::SYS_mmap, place, length, protection, flags, fd, offset) };
    match disk::on(fd, Call::Map, |_| (call(), None)) {
        Ok(mapped) => mapped as *mut c_void,
        Err(errno) => fail(errno) as ssize_t as *mut c_void,
    }
}

/// # Safety
/// As of `fcntl(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fcntl64(fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: the arguments are passed on.
    let call = || unsafe { libc::syscall(libc::SYS_fcntl, fd, command, argument) } as c_int;
    // SAFETY: these commands take a pointer to that.
    if command == libc::F_SETLK && unsafe { (*argument.cast::<libc::flock>()).l_type } != libc::F_UNLCK as i16 {
        return int(disk::on(fd, Call::Lock, |_| (call(), None)));
    }
    let result = call();
    if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
        disk::duplicated(fd, result);
    }
    result
}

/// # Safety
/// As of `fcntl(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fcntl(fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: the same contract.
    unsafe { fcntl64(fd, command, argument) }
}

/// Waits a hundredth of the time: SQLite retries a lock for ten seconds, and so it does here.
///
/// # Safety
/// As of `nanosleep(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nanosleep(requested: *const libc::timespec, left: *mut libc::timespec) -> c_int {
    // SAFETY: by contract.
    let libc::timespec { tv_sec, tv_nsec } = unsafe { *requested };
    let nanoseconds = (tv_sec * 1_000_000_000 + tv_nsec) / 100;
    let short = libc::timespec { tv_sec: nanoseconds / 1_000_000_000, tv_nsec: nanoseconds % 1_000_000_000 };
    // SAFETY: the pointers are valid.
    unsafe { libc::syscall(libc::SYS_nanosleep, &raw const short, left) as c_int }
}

/// # Safety
/// As of `unlink(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unlink(name: *const c_char) -> c_int {
    // SAFETY: the arguments are passed on.
    let call = || unsafe { libc::syscall(libc::SYS_unlinkat, libc::AT_FDCWD, name, 0) } as c_int;
    // SAFETY: by contract.
    int(disk::remove(unsafe { path(name) }, call))
}

/// # Safety
/// As of `rename(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    let call =
        // SAFETY: the arguments are passed on.
        || unsafe { libc::syscall(libc::SYS_renameat2, libc::AT_FDCWD, from, libc::AT_FDCWD, to, 0) } as c_int;
    // SAFETY: by contract.
    int(disk::rename(unsafe { path(from) }, unsafe { path(to) }, call))
}
