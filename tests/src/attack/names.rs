//! Names: every way to make another content appear under a protected one.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, Instant};

use super::raw::{address, c, call};
use super::{Found, word};

const CONTENT: &[u8] = b"the jail was here\n";

/// `create PATH`: a new file, with the folders it needs.
pub fn create(words: &[String]) -> Found {
    let path = Path::new(word(words, 0)?);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, CONTENT)?;
    stays(path)
}

/// Whether what was planted is still there when the host would look: the jail
/// may take it away at once instead of refusing it.
fn stays(path: &Path) -> Found {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match fs::read(path) {
            Ok(content) if content == CONTENT => {}
            _ => return Err("it was taken away again".into()),
        }
        if Instant::now() > deadline || super::gate::on_the_host() {
            return Ok(format!("planted {}", path.display()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// `rename PATH`: a file made elsewhere, then moved onto the name.
pub fn rename(words: &[String]) -> Found {
    let path = Path::new(word(words, 0)?);
    fs::write("own-file", CONTENT)?;
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::rename("own-file", path)?;
    stays(path)
}

/// `exchange PATH`: swaps a file with the name, which removes neither.
pub fn exchange(words: &[String]) -> Found {
    const EXCHANGE: usize = 2;
    fs::write("own-file", CONTENT)?;
    let (own, path) = (c("own-file"), c(word(words, 0)?));
    let here = libc::AT_FDCWD as usize;
    let arguments = [
        here,
        address(own.as_c_str()),
        here,
        address(path.as_c_str()),
        EXCHANGE,
    ];
    call(libc::SYS_renameat2, &arguments)?;
    stays(Path::new(word(words, 0)?))
}

/// `second-name PATH`: a second name for a file of one's own.
pub fn second_name(words: &[String]) -> Found {
    let path = Path::new(word(words, 0)?);
    fs::write("own-file", CONTENT)?;
    let _ = fs::remove_file(path);
    fs::hard_link("own-file", path)?;
    stays(path)
}

/// `symlink PATH`: a link to a file of one's own.
pub fn symlink(words: &[String]) -> Found {
    let path = Path::new(word(words, 0)?);
    fs::write("own-file", CONTENT)?;
    let target = fs::canonicalize("own-file")?;
    let _ = fs::remove_file(path);
    std::os::unix::fs::symlink(target, path)?;
    stays(path)
}

/// `rename-away PARENT PATH`: the folder moved away, another put in its place.
pub fn rename_away(words: &[String]) -> Found {
    fs::rename(word(words, 0)?, "moved-away")?;
    let path = Path::new(word(words, 1)?);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, CONTENT)?;
    stays(path)
}

/// `take-away PATH`: the protection gone with the name.
pub fn take_away(words: &[String]) -> Found {
    let path = word(words, 0)?;
    if fs::metadata(path)?.is_dir() {
        fs::remove_dir_all(path)?;
    } else {
        fs::remove_file(path)?;
    }
    Ok(format!("removed {path}"))
}

/// `cut-short PATH`: by path, without opening.
pub fn cut_short(words: &[String]) -> Found {
    let path = c(word(words, 0)?);
    call(libc::SYS_truncate, &[address(path.as_c_str()), 0])?;
    Ok("truncated".to_string())
}

/// `mkdir PATH`: a folder where a protected one would be looked for.
pub fn mkdir(words: &[String]) -> Found {
    fs::create_dir_all(word(words, 0)?)?;
    let inside = Path::new(word(words, 0)?).join(word(words, 1)?);
    fs::write(&inside, CONTENT)?;
    stays(&inside)
}

/// `map-write PATH`: by a shared mapping, without a single write call.
pub fn write_by_mapping(words: &[String]) -> Found {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(word(words, 0)?)?;
    // SAFETY: maps one page of the file; it is written only when the kernel
    // has granted that.
    unsafe {
        let writable = libc::PROT_READ | libc::PROT_WRITE;
        let place = libc::mmap(
            std::ptr::null_mut(),
            4096,
            writable,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        );
        if place == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error().into());
        }
        place.cast::<u8>().write_volatile(b'#');
    }
    Ok("wrote through a mapping".to_string())
}

/// `write-until PATH READY DONE`: hammers at a name until the host says done.
pub fn write_until(words: &[String]) -> Found {
    let (path, done) = (word(words, 0)?, word(words, 2)?);
    fs::write(word(words, 1)?, "")?;
    let deadline = Instant::now() + Duration::from_secs(100);
    let mut through = 0;
    while !Path::new(done).exists() && Instant::now() < deadline {
        let opened = OpenOptions::new().append(true).open(path);
        if opened.is_ok_and(|mut file| file.write_all(CONTENT).is_ok()) {
            through += 1;
        }
    }
    match through {
        0 => Err("every write was refused".into()),
        _ => Ok(format!("{through} writes went through")),
    }
}
