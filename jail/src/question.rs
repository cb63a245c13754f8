//! The question at a person's own terminal: no default yes, nothing typed ahead
//! counts, and an answer from elsewhere ends it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{FlushArg, tcflush};
use serde_json::{Value, json};
use sjail_policy::risk::Risk;
use sjail_policy::show;
use sjail_policy::wire::control::{APPROVE, REJECT, SHOW, word};
use sjail_policy::wire::request::Waiting;

use crate::client::{Client, Trouble};
use crate::error::Error;

/// So long after the question was put no answer counts: whoever typed then had not
/// read it.
const ARMING: Duration = Duration::from_millis(300);

/// Asks, and sends the answer. Returns when it was given, here or elsewhere. `preview` tries
/// the command out, so that there is more to see.
pub fn put(
    waiting_on: &Client,
    waiting: &Waiting,
    mut preview: Option<&mut dyn FnMut()>,
) -> Result<(), Error> {
    let Ok(mut terminal) = File::options().read(true).write(true).open("/dev/tty") else {
        return Ok(());
    };
    let mut control = Client::control(waiting_on.desk())?;
    let mut offer = ask_about(&mut control, &mut terminal, waiting)?;
    if waiting.risk >= Risk::Critical {
        return put_critical(waiting_on, waiting, &mut control, &mut terminal);
    }
    loop {
        let _ = tcflush(&terminal, FlushArg::TCIFLUSH);
        offer.look = offer.look && preview.is_some();
        write(&mut terminal, &offer.question());
        let Some(line) = read_line(&mut terminal, waiting_on) else {
            write(&mut terminal, "\nanswered elsewhere\n");
            return Ok(());
        };
        let extent = match line.trim().to_ascii_lowercase().as_str() {
            "o" | "once" | "y" | "yes" => json!({}),
            "k" | "keep" if offer.keep => json!({ "apply": true }),
            "p" | "preview" if offer.look => {
                if let Some(preview) = preview.take() {
                    preview();
                }
                offer = ask_about(&mut control, &mut terminal, waiting)?;
                continue;
            }
            "h" | "hour" => json!({ "seconds": 3600 }),
            "a" | "always" if offer.always => json!({ "scope": "always" }),
            "n" | "no" => {
                let no = json!({ "id": waiting.id, "reason": "no, at its own terminal" });
                return settled(control.call(REJECT, &no));
            }
            _ => continue,
        };
        let yes = json!({ "id": waiting.id, "extent": extent });
        match control.call(APPROVE, &yes) {
            Ok(_) => return Ok(()),
            // Not every yes is always possible: ask again, with the reason. Whoever was
            // first has answered; that ends the wait for a line.
            Err(trouble) => write(&mut terminal, &format!("{}\n", trouble.said())),
        }
    }
}

/// The question about a critical command: a yes is a word that nobody could type before it
/// was shown, good for once; an empty line is no answer, any other word is no.
fn put_critical(
    waiting_on: &Client,
    waiting: &Waiting,
    control: &mut Client,
    terminal: &mut File,
) -> Result<(), Error> {
    let word = word(&waiting.id);
    loop {
        let _ = tcflush(&*terminal, FlushArg::TCIFLUSH);
        let question = format!("this is critical. Type {word} to run it once · [n]o: ");
        write(terminal, &question);
        let Some(line) = read_line(terminal, waiting_on) else {
            write(terminal, "\nanswered elsewhere\n");
            return Ok(());
        };
        let typed = line.trim();
        if typed.is_empty() {
            continue;
        }
        if typed != word {
            let no = json!({ "id": waiting.id, "reason": "no, at its own terminal" });
            return settled(control.call(REJECT, &no));
        }
        match control.call(APPROVE, &json!({ "id": waiting.id, "word": typed })) {
            Ok(_) => return Ok(()),
            Err(trouble) => write(terminal, &format!("{}\n", trouble.said())),
        }
    }
}

/// The answers that are possible, beside once, for an hour and no.
#[derive(Debug, Clone, Copy)]
struct Offer {
    /// A preview has shown something that can be kept.
    keep: bool,
    /// There is no preview yet.
    look: bool,
    /// A pattern would allow this, and not much else.
    always: bool,
}

impl Offer {
    fn question(self) -> String {
        let part = |is_offered, text| if is_offered { text } else { "" };
        format!(
            "run it? {}[o]nce · for an [h]our{}{} · [n]o: ",
            part(self.keep, "[k]eep the preview · "),
            part(self.always, " · [a]lways"),
            part(self.look, " · [p]review"),
        )
    }
}

/// Lays the request before whoever sits there, and gives them time to see it.
fn ask_about(control: &mut Client, terminal: &mut File, waiting: &Waiting) -> Result<Offer, Error> {
    let shown = control.call(SHOW, &json!({ "id": waiting.id }))?;
    let request = &shown["request"];
    write(terminal, &described(request));
    std::thread::sleep(ARMING);
    let evidence = &request["evidence"];
    Ok(Offer {
        keep: evidence["preview"].is_string(),
        look: evidence.is_null(),
        always: request["always"]["pattern"].is_string(),
    })
}

/// Whoever was first has answered; the run hears of it anyway.
fn settled(result: Result<Value, Trouble>) -> Result<(), Error> {
    let _ = result;
    Ok(())
}

fn described(request: &Value) -> String {
    let mut out = String::from("\n");
    let inert = |value: &Value| show::inert(value.as_str().unwrap_or_default().as_bytes());
    out.push_str(&format!("  command  {}\n", inert(&request["command"])));
    for (number, word) in request["argv"].as_array().into_iter().flatten().enumerate() {
        let word = match word {
            Value::String(word) => show::inert(word.as_bytes()),
            other => other.to_string(),
        };
        out.push_str(&format!("  argv {number:<4}{word}\n"));
    }
    out.push_str(&format!("  folder   {}\n", inert(&request["cwd"])));
    out.push_str(&format!("  rule     {}\n", inert(&request["rule"])));
    for need in request["needs"].as_array().into_iter().flatten() {
        out.push_str(&format!("  needs    {}\n", inert(need)));
    }
    let evidence = &request["evidence"];
    if evidence["summary"].is_string() {
        out.push_str(&format!("  preview  {}\n", inert(&evidence["summary"])));
    }
    for line in evidence["changes"].as_array().into_iter().flatten() {
        out.push_str(&format!("           {}\n", inert(line)));
    }
    let always = &request["always"];
    out.push_str(&match always["pattern"].as_str() {
        Some(_) => format!("  always   would allow {}\n", inert(&always["widest"])),
        None => format!("  always   is not possible: {}\n", inert(&always["widest"])),
    });
    out
}

/// A line from the terminal; `None` when the broker has something to say first.
fn read_line(terminal: &mut File, waiting_on: &Client) -> Option<String> {
    let mut line = Vec::new();
    loop {
        let ready = {
            let mut wait = [
                PollFd::new(terminal.as_fd(), PollFlags::POLLIN),
                PollFd::new(waiting_on.stream().as_fd(), PollFlags::POLLIN),
            ];
            if poll(&mut wait, PollTimeout::NONE).is_err() {
                continue;
            }
            if wait[1].any().unwrap_or(true) {
                return None;
            }
            wait[0].any().unwrap_or(false)
        };
        if !ready {
            continue;
        }
        let mut byte = [0];
        match terminal.read(&mut byte) {
            Ok(1) if byte[0] == b'\n' => return Some(String::from_utf8_lossy(&line).into_owned()),
            Ok(1) => line.push(byte[0]),
            // The terminal is gone: that is no answer.
            _ => return Some("no".to_owned()),
        }
    }
}

fn write(terminal: &mut File, text: &str) {
    let _ = terminal.write_all(text.as_bytes());
}
