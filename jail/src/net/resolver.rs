//! The jail's resolver: names that lead somewhere have an address, all others do not
//! exist. Nothing is looked up here, and no name leaves the machine.

use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg,
};

use super::dns::{self, Answer, Question};
use super::gate::{Gate, Verdict};
use super::names::{Family, Names};
use super::record::{Decision, Entry, Ledger};

/// So many questions before others have their turn.
const TURN: usize = 32;

/// Whom the resolver works with.
#[derive(Debug)]
pub struct Resolver<'a> {
    /// Who may be reached.
    pub gate: &'a Gate,
    /// The addresses that stand for names.
    pub names: &'a mut Names,
    /// What is written down.
    pub ledger: &'a mut Ledger,
    /// Whether there is IPv6 in the jail.
    pub six: bool,
}

impl Resolver<'_> {
    /// Answers the questions that wait at a socket.
    pub fn packets(&mut self, socket: BorrowedFd<'_>) {
        for _ in 0..TURN {
            match self.packet(socket) {
                // Whatever is wrong with one question, the next may be better.
                Ok(()) | Err(Errno::EINTR) => {}
                Err(_) => return,
            }
        }
    }

    fn packet(&mut self, socket: BorrowedFd<'_>) -> nix::Result<()> {
        let mut packet = [0; dns::LONGEST];
        let mut room = nix::cmsg_space!(libc::in6_pktinfo);
        let (length, from, asked) = {
            let mut parts = [IoSliceMut::new(&mut packet)];
            let message = recvmsg::<SockaddrStorage>(
                socket.as_raw_fd(),
                &mut parts,
                Some(&mut room),
                MsgFlags::MSG_DONTWAIT,
            )?;
            let asked = message.cmsgs()?.next();
            (message.bytes, message.address, asked)
        };
        let Some(from) = from else {
            return Ok(());
        };
        let Some(answer) = self.answer(packet.get(..length).unwrap_or_default()) else {
            return Ok(());
        };
        let parts = [IoSlice::new(&answer)];
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        // From the address that was asked: others are not believed.
        let sent = match asked {
            Some(ControlMessageOwned::Ipv4PacketInfo(mut info)) => {
                info.ipi_spec_dst = info.ipi_addr;
                info.ipi_ifindex = 0;
                let control = [ControlMessage::Ipv4PacketInfo(&info)];
                sendmsg(socket.as_raw_fd(), &parts, &control, flags, Some(&from))
            }
            Some(ControlMessageOwned::Ipv6PacketInfo(mut info)) => {
                info.ipi6_ifindex = 0;
                let control = [ControlMessage::Ipv6PacketInfo(&info)];
                sendmsg(socket.as_raw_fd(), &parts, &control, flags, Some(&from))
            }
            _ => sendmsg(socket.as_raw_fd(), &parts, &[], flags, Some(&from)),
        };
        // A full queue of the asker is the asker's loss.
        let _ = sent;
        Ok(())
    }

    /// The answer to one question; none to what is no question.
    pub fn answer(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        let question = Question::read(packet)?;
        let answer = self.judge(&question);
        Some(question.answer(answer))
    }

    fn judge(&mut self, question: &Question<'_>) -> Answer {
        if !question.is_plain() {
            return Answer::NotImplemented;
        }
        let family = match question.kind {
            dns::A => Some(Family::V4),
            dns::AAAA => Some(Family::V6),
            _ => None,
        };
        let Some(name) = &question.name else {
            self.refuse(&String::from_utf8_lossy(&question.asked), None);
            return Answer::NoSuchName;
        };
        if name == "localhost" || name.ends_with(".localhost") {
            return match family {
                Some(Family::V4) => Answer::Address(IpAddr::V4(Ipv4Addr::LOCALHOST)),
                Some(Family::V6) if self.six => Answer::Address(IpAddr::V6(Ipv6Addr::LOCALHOST)),
                _ => Answer::Nothing,
            };
        }
        match self.gate.lookup(name) {
            Verdict::Refuse(why) => {
                self.refuse(name, Some(why));
                Answer::NoSuchName
            }
            Verdict::Allow | Verdict::Ask => match family {
                Some(Family::V6) if !self.six => Answer::Nothing,
                Some(family) => match self.names.address(name, family) {
                    Some(address) => Answer::Address(address),
                    None => {
                        let entry = Entry::new(name, None, Decision::Refuse);
                        self.ledger
                            .add(entry.because("is one name more than a run may look up"));
                        Answer::NoSuchName
                    }
                },
                None => Answer::Nothing,
            },
        }
    }

    fn refuse(&mut self, name: &str, why: Option<super::gate::Why>) {
        let entry = Entry::new(name, None, Decision::Refuse);
        self.ledger.add(match why {
            None => entry.because("is not a host's name"),
            Some(why) => match super::gate::fix(why, name, None) {
                Some(fix) => entry.because(why.words()).helped_by(fix),
                None => entry.because(why.words()),
            },
        });
    }
}
