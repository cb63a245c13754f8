//! One attempt: what to try, where it must be held, and where it must succeed.

use std::any::Any;
use std::os::fd::OwnedFd;

use sjail_tests::attack::{ABSENT, HELD, OUT};
use sjail_tests::{Call, Identity, Output, Scene, Stop, Test, Verdict};

/// Where the same attempt, without its protection, is seen to succeed.
#[derive(Debug, Clone, Copy)]
pub enum Control {
    /// On the host, by the same user.
    Bare,
    /// On the host, by root; an ordinary user is held there by other means.
    Root,
    /// In the attacker's own weak jail: namespaces, all capabilities, no filter.
    Weak,
    /// On the host, unless a setting of the host forbids it to everyone.
    IfHostAllows,
    /// Not run: seen by hand, with the reason.
    Seen(&'static str),
}

/// Who tells whether an attempt got out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Judge {
    /// The attacker: what it did is possible only outside.
    #[default]
    Attacker,
    /// The host, by what it looks like afterwards: the jail has a private place
    /// of that name, where the attempt may well succeed.
    Host,
}

/// What one attempt needs: made afresh for the jail and for the control.
#[derive(Default)]
pub struct Plan {
    /// The attacker's words in the jail, and in the control unless told otherwise.
    pub words: Vec<String>,
    /// The attacker's words in the control, where they differ.
    pub control_words: Option<Vec<String>>,
    /// Flags of `sjail run`.
    pub flags: Vec<String>,
    /// Variables of whoever calls `sjail`, or the attacker in the control.
    pub variables: Vec<(String, String)>,
    /// Descriptors that a careless caller lets through.
    pub leaked: Vec<OwnedFd>,
    /// What must live as long as the attempt: listeners, victims.
    pub kept: Vec<Box<dyn Any>>,
    /// Who tells whether it got out.
    pub judge: Judge,
    /// What must be true of the host when the jail has ended.
    pub afterwards: Option<Box<dyn Fn() -> Verdict>>,
}

impl Plan {
    /// A plan with nothing but the attacker's words.
    pub fn new<S: Into<String>>(words: impl IntoIterator<Item = S>) -> Plan {
        Plan {
            words: words.into_iter().map(Into::into).collect(),
            ..Plan::default()
        }
    }

    /// Other words in the control.
    pub fn control<S: Into<String>>(mut self, words: impl IntoIterator<Item = S>) -> Plan {
        self.control_words = Some(words.into_iter().map(Into::into).collect());
        self
    }

    /// Flags of `sjail run`.
    pub fn flags<S: Into<String>>(mut self, flags: impl IntoIterator<Item = S>) -> Plan {
        self.flags = flags.into_iter().map(Into::into).collect();
        self
    }

    /// A variable in the caller's environment.
    pub fn variable(mut self, name: &str, value: &str) -> Plan {
        self.variables.push((name.to_string(), value.to_string()));
        self
    }

    /// Keeps something alive.
    pub fn keep(mut self, thing: impl Any) -> Plan {
        self.kept.push(Box::new(thing));
        self
    }

    /// Leaves it to the host to tell, see [`Judge::Host`].
    pub fn judged_by_host(mut self) -> Plan {
        self.judge = Judge::Host;
        self
    }

    /// Looks at the host when the jail has ended.
    pub fn afterwards(mut self, look: impl Fn() -> Verdict + 'static) -> Plan {
        self.afterwards = Some(Box::new(look));
        self
    }
}

/// An attempt whose words are always the same.
pub fn plain(name: &str, control: Control, words: &'static [&'static str]) -> Test {
    attempt(name, control, move |_| Ok(Plan::new(words.iter().copied())))
}

/// An attempt that needs something laid out first.
pub fn attempt(
    name: &str,
    control: Control,
    prepare: impl Fn(&Scene) -> Verdict<Plan> + Send + Sync + 'static,
) -> Test {
    Test::new(name, move |scene| {
        held(scene, prepare(scene)?)?;
        seen_to_succeed(scene, control, || prepare(scene))
    })
}

/// Runs the attempt in the jail, where it must be held.
pub fn held(scene: &Scene, plan: Plan) -> Verdict {
    let attacker = scene.attacker()?;
    let call = scene
        .run(&plan.flags)
        .args(["--"])
        .args([&attacker])
        .args(&plan.words);
    let output = dressed(call, plan.variables, plan.leaked).output()?;
    match plan.judge {
        Judge::Attacker => is_held(&output)?,
        // It must have been tried at all.
        Judge::Host if matches!(output.code(), Some(OUT | HELD)) => {}
        Judge::Host => return Err(Stop::failed(format!("it was not tried, {output}"))),
    }
    match plan.afterwards {
        Some(look) => look(),
        None => Ok(()),
    }
}

/// The attacker said that it was held, or the filter ended it.
pub fn is_held(output: &Output) -> Verdict {
    let said = output.code() == Some(HELD) && output.stdout.contains("HELD");
    let ended_by_filter = output.code() == Some(128 + libc::SIGSYS);
    if (said || ended_by_filter) && !output.stdout.contains("OUT ") {
        eprintln!("in the jail: {}", output.stdout.trim());
        Ok(())
    } else {
        Err(Stop::failed(format!("expected to be held, {output}")))
    }
}

fn seen_to_succeed(
    scene: &Scene,
    control: Control,
    prepare: impl Fn() -> Verdict<Plan>,
) -> Verdict {
    match control {
        Control::Bare | Control::IfHostAllows => {}
        Control::Root if scene.identity() == Identity::Root => {}
        Control::Weak => {}
        Control::Root => return Ok(()),
        Control::Seen(reason) => {
            eprintln!("control not run: {reason}");
            return Ok(());
        }
    }
    let plan = prepare()?;
    let mut words = plan.control_words.unwrap_or(plan.words);
    if matches!(control, Control::Weak) {
        words.insert(0, "weak".to_string());
    }
    let call = scene
        .host(scene.attacker()?)
        .args(&words)
        .env("ATTACKER_CONTROL", "1");
    let output = dressed(call, plan.variables, plan.leaked).output()?;
    match output.code() {
        Some(OUT) if output.stdout.contains("OUT ") => Ok(()),
        Some(ABSENT) => {
            eprintln!("control: {}", output.stdout.trim());
            Ok(())
        }
        Some(HELD) if matches!(control, Control::IfHostAllows) => {
            eprintln!(
                "control: this host forbids it to everyone: {}",
                output.stdout.trim()
            );
            Ok(())
        }
        _ => Err(Stop::failed(format!(
            "without the protection it must get out, or the check is hollow, {output}"
        ))),
    }
}

fn dressed(mut call: Call, variables: Vec<(String, String)>, leaked: Vec<OwnedFd>) -> Call {
    for (name, value) in variables {
        call = call.env(name, value);
    }
    for descriptor in leaked {
        call = call.leaking(descriptor);
    }
    call
}
