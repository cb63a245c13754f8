//! The clock by which file systems stamp what is changed.

use std::thread;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// A moment that file systems can tell from this one. Whatever the host changed before is
/// older, whatever it changes afterwards is not. Files are stamped with the coarse clock,
/// or between its steps with the fine one, so the coarse clock must have passed the fine
/// one's present time; a step of it may still leave it behind.
pub fn next() -> (i64, i64) {
    let read = |clock| clock_gettime(clock).map_or((0, 0), |time| (time.tv_sec(), time.tv_nsec()));
    let now = read(ClockId::CLOCK_REALTIME);
    for _ in 0..200 {
        let coarse = read(ClockId::CLOCK_REALTIME_COARSE);
        if coarse > now {
            return coarse;
        }
        thread::sleep(Duration::from_micros(500));
    }
    now
}
