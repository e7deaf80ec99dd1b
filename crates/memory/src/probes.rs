//! Memory figures of the allocator and the operating system. A probe is `None` on systems without it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
use std::sync::OnceLock;

use options::AllocatorBackend;

use super::backend::current_backend;
use super::backend::mimalloc_reserved;
use super::control_group::limit_bytes;

/// Bytes that the allocator holds of the system.
pub fn reserved_bytes() -> Option<u64> {
    match current_backend() {
        AllocatorBackend::System | AllocatorBackend::Retain => c_library_reserved(),
        AllocatorBackend::Mimalloc => mimalloc_reserved(),
    }
}

/// Bytes of glibc's arenas and of the blocks that it mapped separately. `None` before glibc 2.33, which brought
/// `mallinfo2`: the older `mallinfo` counts in 32 bits.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn c_library_reserved() -> Option<u64> {
    let mallinfo2 = mallinfo2()?;
    // SAFETY: takes no arguments and returns plain numbers.
    let info = unsafe { mallinfo2() };
    Some(info.arena as u64 + info.hblkhd as u64)
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
type Mallinfo2 = unsafe extern "C" fn() -> libc::mallinfo2;

/// Looks `mallinfo2` up once: a binary that links to it does not start with an older glibc.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn mallinfo2() -> Option<Mallinfo2> {
    static FOUND: OnceLock<Option<Mallinfo2>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        // SAFETY: the name is a C string, and the result is null or the function's address.
        let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"mallinfo2".as_ptr()) };
        // SAFETY: mallinfo2(3) has this signature; a null address is `None`.
        unsafe { std::mem::transmute::<*mut libc::c_void, Option<Mallinfo2>>(address) }
    })
}

/// Other C libraries do not report it.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn c_library_reserved() -> Option<u64> {
    None
}

/// Resident set of this process, in bytes.
pub fn process_bytes() -> Option<u64> {
    kibibytes("/proc/self/status", "VmRSS:")
}

/// Highest resident set of this process since it began or [`reset_process_peak`], in bytes.
pub fn process_peak_bytes() -> Option<u64> {
    kibibytes("/proc/self/status", "VmHWM:")
}

/// Highest resident set of another process since it began, in bytes.
pub fn process_peak_bytes_of(process: u32) -> Option<u64> {
    kibibytes(&format!("/proc/{process}/status"), "VmHWM:")
}

/// Resets the highest resident set to the present one. Returns false if the system cannot.
pub fn reset_process_peak() -> bool {
    fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// Bytes that the system can give without swapping.
pub fn system_available_bytes() -> Option<u64> {
    kibibytes("/proc/meminfo", "MemAvailable:")
}

/// Bytes of the machine's memory.
pub fn system_total_bytes() -> Option<u64> {
    kibibytes("/proc/meminfo", "MemTotal:")
}

/// Used part of the machine's memory, of all processes, in percent.
pub fn system_used_percent() -> Option<f64> {
    let (total, available) = (system_total_bytes()?, system_available_bytes()?);
    (total > 0).then(|| 100.0 * (1.0 - available as f64 / total as f64))
}

/// Bytes that this process may use: the machine's, or the part of its control group.
pub fn usable_bytes() -> Option<u64> {
    let bounds = [system_total_bytes(), limit_bytes()];
    bounds.into_iter().flatten().min()
}

/// Waits for a child's end, and reaps it. Returns its status and its highest resident set in bytes.
///
/// # Errors
/// It is no child of this process, or reaped already.
pub fn reap(child: u32) -> io::Result<(ExitStatus, u64)> {
    let id = libc::pid_t::try_from(child).map_err(io::Error::other)?;
    let (mut status, mut usage) = (0, std::mem::MaybeUninit::<libc::rusage>::uninit());
    loop {
        // SAFETY: both places are valid; the call fills them if it returns the child's id.
        let found = unsafe { libc::wait4(id, &raw mut status, 0, usage.as_mut_ptr()) };
        if found == id {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // SAFETY: the call has filled it.
    let usage = unsafe { usage.assume_init() };
    // Linux counts in kibibytes.
    let peak = u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024;
    Ok((ExitStatus::from_raw(status), peak))
}

/// Minor page faults of this process since it began.
pub fn page_faults() -> Option<u64> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the call fills the structure if it returns 0.
    let usage = unsafe { (libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) == 0).then(|| usage.assume_init()) };
    usage.and_then(|usage| u64::try_from(usage.ru_minflt).ok())
}

/// Reads the figure after `key` in a file of lines such as `VmRSS:   1234 kB`, and returns it in bytes. It reads into
/// the stack: a probe that allocates would change what it measures.
fn kibibytes(path: &str, key: &str) -> Option<u64> {
    let mut buffer = [0; 4096];
    let mut file = File::open(path).ok()?;
    let mut len = 0;
    while len < buffer.len() {
        match file.read(&mut buffer[len..]).ok()? {
            0 => break,
            read => len += read,
        }
    }
    // The buffer may end within a line, but not within a character: these files are ASCII (a process's name aside).
    let value = buffer[..len]
        .split(|&byte| byte == b'\n')
        .find_map(|line| line.strip_prefix(key.as_bytes()))?;
    let digits = std::str::from_utf8(value).ok()?.trim().strip_suffix("kB")?;
    digits.trim_end().parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn linux_answers() {
        let resident = process_bytes().unwrap();
        assert!(resident > 100_000, "{resident}");
        assert!(process_peak_bytes().unwrap() >= resident / 2);
        assert!(process_peak_bytes_of(std::process::id()).unwrap() >= resident / 2);
        assert_eq!(process_peak_bytes_of(u32::MAX), None);
        assert!(system_total_bytes().unwrap() >= system_available_bytes().unwrap());
        assert!(page_faults().unwrap() > 0);
        assert_eq!(kibibytes("/proc/self/status", "NoSuchKey:"), None);
        assert_eq!(kibibytes("/no/such/file", "VmRSS:"), None);
    }

    #[cfg(target_env = "gnu")]
    #[test]
    fn glibc_answers_from_version_2_33_on() {
        // SAFETY: returns a C string that lives as long as the process.
        let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
        let (major, minor) = version.to_str().unwrap().split_once('.').unwrap();
        let version: (u32, u32) = (major.parse().unwrap(), minor.parse().unwrap());
        assert_eq!(c_library_reserved().is_some(), version >= (2, 33), "{version:?}");
    }
}
