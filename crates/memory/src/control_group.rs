//! The control group of this process: the memory that it may use, and what the kernel ended for want of it. Linux,
//! versions 1 and 2 (`Documentation/admin-guide/cgroup-v1/memory.rst` and `cgroup-v2.rst` of the kernel).

use std::fs;
use std::path::{Path, PathBuf};

/// The file with the limit of a group, in either version.
const LIMITS: [&str; 2] = ["memory.max", "memory.limit_in_bytes"];

/// The file that counts the processes of a group which the kernel has ended, in either version.
const EVENTS: [&str; 2] = ["memory.events", "memory.oom_control"];

/// Bytes that the processes of this control group may hold together: the lowest limit of the group and of those that it
/// is in. `None` without a limit.
pub fn limit_bytes() -> Option<u64> {
    lowest_limit(&Group::own()?)
}

/// Processes of this control group that the kernel has ended for want of memory; those of the machine if no group counts
/// them. `None` if the system does not say.
pub fn oom_kills() -> Option<u64> {
    let own = Group::own().and_then(|group| kills_of(&group));
    own.or_else(|| count_of(&fs::read_to_string("/proc/vmstat").ok()?, "oom_kill"))
}

/// The folder of a group.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    folder: PathBuf,
    /// The highest folder that this process sees.
    top: PathBuf,
}

impl Group {
    /// The group that limits the memory of this process.
    fn own() -> Option<Self> {
        let read = |path| fs::read_to_string(path).ok();
        Self::of(&read("/proc/self/cgroup")?, &read("/proc/self/mountinfo")?)
    }

    /// The same of the text of both files. The controller of version 1 counts if there is one.
    fn of(groups: &str, mounts: &str) -> Option<Self> {
        let mounts = || mounts.lines().filter_map(Mount::read);
        let groups = || {
            groups
                .lines()
                .filter_map(|line| line.split_once(':')?.1.split_once(':'))
        };
        let is_memory = |list: &str| list.split(',').any(|name| name == "memory");
        let first = || {
            let path = groups().find(|(controllers, _)| is_memory(controllers))?.1;
            let mount = mounts().find(|mount| mount.kind == "cgroup" && is_memory(mount.options))?;
            Some(mount.group(path))
        };
        let second = || {
            let path = groups().find(|(controllers, _)| controllers.is_empty())?.1;
            Some(mounts().find(|mount| mount.kind == "cgroup2")?.group(path))
        };
        first().or_else(second)
    }
}

/// A line of `/proc/self/mountinfo`.
struct Mount<'a> {
    /// The part of the file system that is mounted.
    root: &'a str,
    at: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let (mount, file_system) = line.split_once(" - ")?;
        let (mut mount, mut file_system) = (mount.split(' ').skip(3), file_system.split(' '));
        Some(Self {
            root: mount.next()?,
            at: mount.next()?,
            kind: file_system.next()?,
            options: file_system.nth(1)?,
        })
    }

    /// The group with this path. One outside the mount is that of the mount: a container sees no more.
    fn group(&self, path: &str) -> Group {
        let below = Path::new(path).strip_prefix(self.root);
        let below = below.ok().filter(|path| !path.starts_with(".."));
        Group {
            folder: Path::new(self.at).join(below.unwrap_or(Path::new(""))),
            top: self.at.into(),
        }
    }
}

fn lowest_limit(group: &Group) -> Option<u64> {
    let of = |folder: &Path| {
        let text = LIMITS
            .iter()
            .find_map(|file| fs::read_to_string(folder.join(file)).ok())?;
        // Version 2 has the word `max` without a limit; version 1 has the largest number of whole pages.
        text.trim().parse().ok().filter(|&bytes| bytes < i64::MAX as u64 >> 1)
    };
    let folders = group
        .folder
        .ancestors()
        .take_while(|folder| folder.starts_with(&group.top));
    folders.filter_map(of).min()
}

fn kills_of(group: &Group) -> Option<u64> {
    let text = EVENTS
        .iter()
        .find_map(|file| fs::read_to_string(group.folder.join(file)).ok())?;
    count_of(&text, "oom_kill")
}

/// The number behind a name in lines such as `oom_kill 3`.
fn count_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n";
    const SECOND: &str = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

    fn group(folder: &str, top: &str) -> Option<Group> {
        Some(Group {
            folder: folder.into(),
            top: top.into(),
        })
    }

    #[test]
    fn the_group_is_found_in_either_version() {
        let memory = "/sys/fs/cgroup/memory";
        assert_eq!(
            Group::of("5:cpu:/x\n4:memory:/a/b\n0::/c\n", &format!("{SECOND}{FIRST}")),
            group("/sys/fs/cgroup/memory/a/b", memory)
        );
        assert_eq!(
            Group::of("0::/user.slice/a\n", SECOND),
            group("/sys/fs/cgroup/user.slice/a", "/sys/fs/cgroup")
        );
        // A container whose own group is the mount's root.
        let of_container = FIRST.replace(" / ", " /docker/1f ");
        assert_eq!(Group::of("4:memory:/docker/1f\n", &of_container), group(memory, memory));
        assert_eq!(Group::of("4:memory:/../2\n", FIRST), group(memory, memory));
        assert_eq!(Group::of("", FIRST), None);
        assert_eq!(Group::of("4:memory:/a\n", ""), None);
    }

    #[test]
    fn the_lowest_limit_of_all_groups_counts() {
        let top = tempfile::tempdir().unwrap();
        let folder = top.path().join("a/b");
        fs::create_dir_all(&folder).unwrap();
        let group = Group {
            folder: folder.clone(),
            top: top.path().into(),
        };
        assert_eq!(lowest_limit(&group), None);
        fs::write(folder.join("memory.max"), "max\n").unwrap();
        assert_eq!(lowest_limit(&group), None);
        fs::write(top.path().join("a/memory.max"), "734003200\n").unwrap();
        assert_eq!(lowest_limit(&group), Some(700 << 20));
        fs::write(folder.join("memory.max"), "1048576\n").unwrap();
        assert_eq!(lowest_limit(&group), Some(1 << 20));
        fs::remove_file(folder.join("memory.max")).unwrap();
        fs::write(folder.join("memory.limit_in_bytes"), "9223372036854771712\n").unwrap();
        assert_eq!(lowest_limit(&group), Some(700 << 20));
    }

    #[test]
    fn kills_are_counted() {
        let top = tempfile::tempdir().unwrap();
        let group = Group {
            folder: top.path().into(),
            top: top.path().into(),
        };
        assert_eq!(kills_of(&group), None);
        let first = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        fs::write(top.path().join("memory.oom_control"), first).unwrap();
        assert_eq!(kills_of(&group), Some(3));
        let second = "low 0\nhigh 0\nmax 9\noom 2\noom_kill 2\noom_group_kill 0\n";
        fs::write(top.path().join("memory.events"), second).unwrap();
        assert_eq!(kills_of(&group), Some(2));
    }
}
