//! Files of the host: secrets to read, files to change, descriptors to inherit.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::Path;
use std::time::{Duration, Instant};

use super::gate::on_the_host;
use super::raw::{address, address_mut, c, call, is};
use super::{Found, Held, number, word};

/// What the suite writes into whatever a jail must not read.
pub const CANARY: &str = "canary-of-the-host";

/// Text that holds the canary is proof; anything else is not what was sought.
pub fn proof(text: &[u8]) -> Found {
    let text = String::from_utf8_lossy(text);
    if text.contains(CANARY) {
        Ok(format!("read {CANARY}"))
    } else {
        Err(format!("no canary in {} bytes", text.len()).into())
    }
}

/// `read PATH`: the canary in a file.
pub fn read(words: &[String]) -> Found {
    let mut text = Vec::new();
    open_to_read(word(words, 0)?)?
        .take(1 << 20)
        .read_to_end(&mut text)?;
    if words.get(1).is_some_and(|word| word == "anything") {
        return if text.is_empty() {
            Err("it is empty".into())
        } else {
            Ok(format!("read {} bytes", text.len()))
        };
    }
    proof(&text)
}

fn open_to_read(path: &str) -> Result<File, Held> {
    match File::open(path) {
        Ok(file) => Ok(file),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && on_the_host() => {
            Err(Held::Absent(format!("there is no {path}")))
        }
        Err(error) => Err(error.into()),
    }
}

/// `read-when PATH READY GO`: says it is ready, waits for the host, then reads.
pub fn read_when(words: &[String]) -> Found {
    File::create(word(words, 1)?)?;
    let deadline = Instant::now() + Duration::from_secs(60);
    while !Path::new(word(words, 2)?).exists() {
        if Instant::now() > deadline {
            eprintln!("attacker: the host never said go");
            std::process::exit(2);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    proof(&fs::read(word(words, 0)?)?)
}

/// `write PATH`: changes or makes a file.
pub fn write(words: &[String]) -> Found {
    let path = word(words, 0)?;
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    file.write_all(b"the jail was here\n")?;
    Ok(format!("wrote {path}"))
}

/// `write-open PATH`: opens for writing and leaves it at that.
pub fn open_for_writing(words: &[String]) -> Found {
    let path = word(words, 0)?;
    open_setting(path)?;
    Ok(format!("opened {path} for writing"))
}

/// `write-same PATH`: writes back what a kernel setting already says.
pub fn write_same(words: &[String]) -> Found {
    let path = word(words, 0)?;
    let value = fs::read(path).unwrap_or_default();
    open_setting(path)?.write_all(&value)?;
    Ok(format!("wrote {path}"))
}

/// Opens a file of the kernel for writing; one that this host has not got is
/// told apart.
fn open_setting(path: &str) -> Result<File, Held> {
    match OpenOptions::new().write(true).open(path) {
        Ok(file) => Ok(file),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && on_the_host() => {
            Err(Held::Absent(format!("there is no {path}")))
        }
        Err(error) => Err(error.into()),
    }
}

/// `make-group FOLDER`: a control group of one's own, with limits of one's own.
pub fn make_group(words: &[String]) -> Found {
    let group = Path::new(word(words, 0)?).join("attacker-was-here");
    fs::create_dir(&group)?;
    fs::remove_dir(&group)?;
    Ok(format!("made {}", group.display()))
}

/// `link-from SOURCE OWN`: a second name, within reach, for a file that is not.
pub fn link_from(words: &[String]) -> Found {
    fs::hard_link(word(words, 0)?, word(words, 1)?)?;
    proof(&fs::read(word(words, 1)?)?)
}

/// `move-in SOURCE OWN`: the file itself taken over.
pub fn move_in(words: &[String]) -> Found {
    fs::rename(word(words, 0)?, word(words, 1)?)?;
    proof(&fs::read(word(words, 1)?)?)
}

/// `chmod MODE PATH`: an octal mode, for the set-user-id bit.
pub fn chmod(words: &[String]) -> Found {
    let mode = u32::from_str_radix(word(words, 0)?, 8).map_err(|_| "no mode")?;
    let path = c(word(words, 1)?);
    let here = libc::AT_FDCWD as usize;
    match words.get(2).map(String::as_str) {
        None => call(libc::SYS_chmod, &[address(path.as_c_str()), mode as usize])?,
        Some("fchmodat") => call(
            libc::SYS_fchmodat,
            &[here, address(path.as_c_str()), mode as usize],
        )?,
        Some("fchmodat2") => call(452, &[here, address(path.as_c_str()), mode as usize, 0])?,
        Some("fchmod") => {
            let file = File::open(word(words, 1)?)?;
            call(
                libc::SYS_fchmod,
                &[file.as_raw_fd() as usize, mode as usize],
            )?
        }
        Some(_) => {
            let flags = (libc::O_CREAT | libc::O_WRONLY) as usize;
            let fresh = c(&format!("{}.fresh", word(words, 1)?));
            call(
                libc::SYS_openat,
                &[here, address(fresh.as_c_str()), flags, mode as usize],
            )?
        }
    };
    Ok(format!("made {} {mode:o}", word(words, 1)?))
}

/// `mknod c|b MAJOR MINOR PATH`: a door to a device.
pub fn mknod(words: &[String]) -> Found {
    let kind = if word(words, 0)? == "b" {
        libc::S_IFBLK
    } else {
        libc::S_IFCHR
    };
    let device = libc::makedev(number(words, 1)? as u32, number(words, 2)? as u32);
    let path = c(word(words, 3)?);
    let mode = (kind | 0o666) as usize;
    call(
        libc::SYS_mknod,
        &[address(path.as_c_str()), mode, device as usize],
    )?;
    Ok(format!("made a device at {}", word(words, 3)?))
}

/// `device PATH`: opens a device that is already there.
pub fn open_device(words: &[String]) -> Found {
    let path = word(words, 0)?;
    match OpenOptions::new().read(true).open(path) {
        Ok(_) => Ok(format!("opened {path}")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && on_the_host() => {
            Err(Held::Absent(format!("there is no {path}")))
        }
        // The node is there and the driver says no: the door itself was open.
        Err(error)
            if is(&error, libc::ENXIO) || is(&error, libc::ENODEV) || is(&error, libc::EIO) =>
        {
            Ok(format!("{path} answered: {error}"))
        }
        Err(error) => Err(error.into()),
    }
}

/// `env NAME`: a variable that carries the canary or steers other programs.
pub fn environment(words: &[String]) -> Found {
    let name = word(words, 0)?;
    match env::var_os(name) {
        Some(value) if value.to_string_lossy().contains(CANARY) => {
            Ok(format!("{name} is {value:?}"))
        }
        Some(_) => Err(format!("{name} is set to something harmless").into()),
        None => Err(format!("{name} is not set").into()),
    }
}

/// `descriptors`: whatever is open beyond 0, 1 and 2.
pub fn leaked_descriptors(_: &[String]) -> Found {
    let mut open = Vec::new();
    for number in 3..4096 {
        // SAFETY: asks for flags of a descriptor number, open or not.
        if unsafe { libc::fcntl(number, libc::F_GETFD) } >= 0 {
            let target = fs::read_link(format!("/proc/self/fd/{number}"));
            open.push(format!("{number} -> {target:?}"));
        }
    }
    if open.is_empty() {
        Err("nothing but 0, 1 and 2".into())
    } else {
        Ok(format!("{open:?}"))
    }
}

/// `read-below DESCRIPTOR NAME`: reads below an inherited folder.
pub fn read_below_descriptor(words: &[String]) -> Found {
    let name = c(word(words, 1)?);
    let descriptor = call(
        libc::SYS_openat,
        &[
            number(words, 0)? as usize,
            address(name.as_c_str()),
            libc::O_RDONLY as usize,
        ],
    )?;
    // SAFETY: the descriptor was just opened by us.
    let mut file = unsafe { File::from_raw_fd(descriptor as i32) };
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    proof(&text)
}

/// `write-below DESCRIPTOR NAME`: makes a file below an inherited folder.
pub fn write_below_descriptor(words: &[String]) -> Found {
    let name = c(word(words, 1)?);
    let flags = (libc::O_WRONLY | libc::O_CREAT) as usize;
    call(
        libc::SYS_openat,
        &[
            number(words, 0)? as usize,
            address(name.as_c_str()),
            flags,
            0o644,
        ],
    )?;
    Ok("made a file below an inherited folder".to_string())
}

/// `fchdir-stdin NAME`: standard input is a folder of the host; goes there.
pub fn read_below_stdin(words: &[String]) -> Found {
    call(libc::SYS_fchdir, &[0])?;
    proof(&fs::read(word(words, 0)?)?)
}

/// `handle PATH NAME`: the file system's root by its inode number, then a name
/// below it. The mounts of a jail do not stand between a handle and its inode.
pub fn open_by_handle(words: &[String]) -> Found {
    let place = File::open(word(words, 0)?)?;
    // struct file_handle { u32 bytes; i32 type; u8 handle[] }: ext4 and xfs take
    // inode and generation; inode 2, generation 0 is ext4's root.
    let mut handle = [0u8; 16];
    handle[0] = 8;
    handle[4] = 1;
    handle[8] = 2;
    let root = call(
        libc::SYS_open_by_handle_at,
        &[
            place.as_raw_fd() as usize,
            address_mut(&mut handle),
            libc::O_RDONLY as usize,
        ],
    );
    let root = match root {
        Err(error) if is(&error, libc::ESTALE) && on_the_host() => {
            return Err(Held::Absent(
                "the file system takes other handles".to_string(),
            ));
        }
        other => other?,
    };
    read_below_descriptor(&[root.to_string(), word(words, 1)?.to_string()])
}
