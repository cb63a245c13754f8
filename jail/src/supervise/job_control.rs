//! Signals, stopping and continuing: what a shell expects of the programs it starts.

use nix::sys::signal::Signal;

use super::{Phase, Supervisor};
use crate::channel::ToJail;
use crate::signals::{Arrived, Reach, stop_own_group};
use crate::sys::pidfd;
use crate::terminal::Standing;
use std::os::fd::AsFd;

impl Supervisor<'_> {
    /// Passes a signal on, or acts on it.
    pub(super) fn on_signal(&mut self, arrived: Arrived) {
        let number = arrived.signal as i32;
        match arrived.signal {
            Signal::SIGWINCH => match &self.watch.stdio.terminal {
                Some(terminal) => terminal.resize(),
                None => self.tell(ToJail::Signal(number)),
            },
            Signal::SIGCONT => self.resume(),
            Signal::SIGTSTP if self.phase == Phase::Building => self.on_stop(number),
            // Ours alone: they never stop us (see signals.rs), and the command has a
            // terminal and pipes of its own.
            Signal::SIGTTIN | Signal::SIGTTOU | Signal::SIGPIPE => {}
            Signal::SIGINT | Signal::SIGTERM | Signal::SIGHUP | Signal::SIGQUIT
                if !matches!(self.phase, Phase::Ready | Phase::Running) =>
            {
                self.give_up(number);
            }
            _ => self.tell(match arrived.reach {
                Reach::Group => ToJail::Signal(number),
                Reach::Command => ToJail::SignalCommand(number),
            }),
        }
    }

    /// A signal to end while there is no command to pass it to: the jail is still being
    /// built, or has ended and somebody does not take its last output.
    fn give_up(&mut self, signal: i32) {
        if self.phase == Phase::Building {
            self.exited.get_or_insert(signal);
            let _ = pidfd::send_signal(self.jail.pidfd.as_fd(), libc::SIGKILL);
        }
        self.watch.stdio.taps.retain(|tap| !tap.is_passed_on());
        if self.phase == Phase::Dead {
            self.watch.stdio.terminal = None;
        }
    }

    /// The command has stopped: so do we, as the shell that waits for us expects.
    pub(super) fn on_stop(&mut self, signal: i32) {
        let asks_for_terminal = signal == libc::SIGTTIN || signal == libc::SIGTTOU;
        if let Some(terminal) = &mut self.watch.stdio.terminal {
            if asks_for_terminal {
                self.wants_terminal = true;
                if terminal.standing() != Standing::Theirs {
                    return self.resume();
                }
            }
            terminal.detach();
        }
        let own = match signal {
            libc::SIGTTIN => Signal::SIGTTIN,
            libc::SIGTTOU => Signal::SIGTTOU,
            _ => Signal::SIGTSTP,
        };
        // Here sjail sleeps until its shell says `fg` or `bg`.
        let _ = stop_own_group(own);
        let mut continued = false;
        while let Some(arrived) = self.watch.signals.next() {
            if arrived.signal == Signal::SIGCONT {
                continued = true;
            } else {
                self.on_signal(arrived);
            }
        }
        // Nobody could have continued us, so the kernel did not stop us: it would have
        // spared the command the same, but for SIGSTOP.
        if continued || signal != libc::SIGSTOP {
            self.resume();
        }
    }

    /// Continues the command, with the terminal if it is ours again.
    fn resume(&mut self) {
        if let Some(terminal) = &mut self.watch.stdio.terminal {
            if terminal.standing() == Standing::Theirs {
                terminal.detach();
                self.tell(ToJail::Background);
            } else if self.wants_terminal {
                terminal.attach();
                self.tell(ToJail::Foreground);
            }
        }
        self.tell(ToJail::Signal(libc::SIGCONT));
        // A key that came to the pty before pid 1 has moved the foreground would signal
        // the wrong group, a Ctrl-Z before SIGCONT would be undone by it: keys wait.
        if self.watch.stdio.terminal.is_some() {
            self.tell(ToJail::Settle);
            self.unsettled += 1;
        }
    }
}
