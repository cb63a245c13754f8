#![allow(clippy::unwrap_used, clippy::panic)]
use super::answer::{Approver, RunNote, Taken, approve, reject, take};
use super::permit::{self, Whereabouts};
use super::question::{answered, ask};
use super::request::{Detail, Page, clear, expire, find, list};
use super::{Asked, Body, New, Redacted, Stored, Subject};
use crate::audit::ledger::Ledger;
use crate::audit::mirror::Mirror;
use crate::audit::record::{Entry, Event};
use crate::audit::verify::verify;
use crate::binding::{kin, twin};
use crate::error::{Error, Result};
use crate::process::ProcessId;
use crate::store::Files;
use sjail_policy::bytes::ByteString;
use sjail_policy::risk::Risk;
use sjail_policy::wire::control::{Extent, Proposal, RequestStatus, Scope};
use sjail_policy::wire::request::{Binding, BoundFile, Place, Typed};

const NOW: i64 = 1_700_000_000;

struct Desk {
    ledger: Ledger,
    files: Files,
    _folder: tempfile::TempDir,
}

fn process(pid: i32) -> ProcessId {
    ProcessId { pid, started: 1 }
}

fn desk() -> Desk {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::new(folder.path());
    Desk {
        ledger: Ledger::open(&files, Mirror::none()).unwrap(),
        files,
        _folder: folder,
    }
}

fn new(command: &str) -> New {
    let argv: Vec<ByteString> = command.split(' ').map(ByteString::from).collect();
    let binding = Binding {
        argv: argv.clone(),
        cwd: BoundFile {
            path: "/w/src".into(),
            dev: 1,
            ino: 2,
            sha256: None,
        },
        env: vec![],
        files: vec![],
        open: vec![],
        policy: "p".to_owned(),
        text: None,
    };
    New {
        uid: 1000,
        twin: twin(1000, &binding),
        ttl: 1800,
        limit: 3,
        body: Body {
            command: command.to_owned(),
            typed: Typed::Argv(argv.clone()),
            argv,
            redacted: Redacted {
                command: command.replace("hunter2", "[redacted]"),
                argv: vec![],
            },
            cwd: "/w/src".into(),
            workspace: "/w".into(),
            options: vec![],
            risk: Risk::Dangerous,
            reasons: vec!["Because".to_owned()],
            rule: "risk".to_owned(),
            needs: vec![],
            access: vec![],
            changed: vec![],
            user: "ann".to_owned(),
            agent: None,
            session: Some("s".to_owned()),
            peer: serde_json::Value::Null,
            requester: Some(process(50)),
            circle: vec![process(50), process(40)],
            inline: false,
            place: Place::Jail,
            binding,
            always: None,
            subject: Subject::Command,
            holder: None,
            evidence: None,
            commit: None,
            apply: None,
            on_ask: Vec::new(),
        },
        plan: None,
        entry: Entry::new(Event::Decision),
    }
}

fn approver(pids: &[i32]) -> Approver {
    Approver {
        summary: "ann on pts/2".to_owned(),
        line: pids.iter().copied().map(process).collect(),
        claimed: None,
        word: None,
    }
}

impl Desk {
    fn tx<T>(&mut self, work: impl FnOnce(&mut Ledger) -> Result<T>) -> Result<T> {
        self.ledger.transaction(work)
    }

    fn ask(&mut self, new: New) -> Stored {
        match self.tx(|ledger| ask(ledger, new, NOW)).unwrap() {
            Asked::New(stored) => *stored,
            other => panic!("not asked: {other:?}"),
        }
    }

    fn approve(&mut self, id: &str, extent: &Extent) -> Result<Stored> {
        self.tx(|ledger| approve(ledger, id, &approver(&[90, 1]), extent, &[], None, NOW))
    }

    fn take(&mut self, id: &str, present: &Binding, at: i64) -> Result<Taken> {
        let run = RunNote {
            token: "t".to_owned(),
            runner: None,
            asked: None,
        };
        self.tx(|ledger| {
            take(
                ledger,
                id,
                1000,
                present,
                &run,
                Entry::new(Event::Intent),
                at,
            )
        })
    }

    fn status(&self, id: &str) -> RequestStatus {
        find(self.ledger.connection(), id).unwrap().status
    }
}

#[test]
fn an_approval_is_used_once() {
    let mut desk = desk();
    let stored = desk.ask(new("rm -rf build"));
    assert!(matches!(
        desk.take(&stored.id, &stored.body.binding, NOW),
        Err(Error::WrongStatus {
            status: "pending",
            ..
        })
    ));
    desk.approve(&stored.id, &Extent::default()).unwrap();
    assert!(matches!(
        desk.take(&stored.id, &stored.body.binding, NOW),
        Ok(Taken::Run { .. })
    ));
    assert_eq!(desk.status(&stored.id), RequestStatus::Used);
    assert!(matches!(
        desk.take(&stored.id, &stored.body.binding, NOW),
        Err(Error::WrongStatus { status: "used", .. })
    ));
    assert!(matches!(
        desk.approve(&stored.id, &Extent::default()),
        Err(Error::WrongStatus { status: "used", .. })
    ));
    desk.ledger.publish_head();
    assert_eq!(verify(&desk.files, &[]).unwrap().problems, []);
}

#[test]
fn another_account_cannot_use_it() {
    let mut desk = desk();
    let stored = desk.ask(new("rm x"));
    desk.approve(&stored.id, &Extent::default()).unwrap();
    let run = RunNote {
        token: "t".to_owned(),
        runner: None,
        asked: None,
    };
    let result = desk.tx(|ledger| {
        take(
            ledger,
            &stored.id,
            1001,
            &stored.body.binding,
            &run,
            Entry::new(Event::Intent),
            NOW,
        )
    });
    assert!(matches!(result, Err(Error::NotFound { .. })));
}

#[test]
fn drift_makes_an_approval_void_and_is_named() {
    let mut desk = desk();
    let stored = desk.ask(new("rm x"));
    desk.approve(&stored.id, &Extent::default()).unwrap();
    let mut changed = stored.body.binding.clone();
    changed.policy = "q".to_owned();
    match desk.take(&stored.id, &changed, NOW).unwrap() {
        Taken::Drifted { changed, .. } => assert_eq!(changed, ["the policy has changed"]),
        other @ Taken::Run { .. } => panic!("{other:?}"),
    }
    assert_eq!(desk.status(&stored.id), RequestStatus::Expired);
    assert!(desk.take(&stored.id, &stored.body.binding, NOW).is_err());
}

#[test]
fn whoever_asks_does_not_answer() {
    let mut desk = desk();
    let stored = desk.ask(new("rm x"));
    for line in [&[50, 40, 1][..], &[99, 40, 1], &[40]] {
        let by = approver(line);
        let yes = desk.tx(|l| approve(l, &stored.id, &by, &Extent::default(), &[], None, NOW));
        assert!(matches!(yes, Err(Error::Refused(_))), "{line:?}");
        let no = desk.tx(|l| reject(l, &stored.id, &by, None, NOW));
        assert!(matches!(no, Err(Error::Refused(_))), "{line:?}");
    }
    assert_eq!(desk.status(&stored.id), RequestStatus::Pending);
}

#[test]
fn at_its_own_terminal_only_the_asking_process_itself_answers() {
    let mut desk = desk();
    let mut request = new("rm x");
    request.body.inline = true;
    let stored = desk.ask(request);
    let child = approver(&[99, 50, 1]);
    let refused = desk.tx(|l| approve(l, &stored.id, &child, &Extent::default(), &[], None, NOW));
    assert!(matches!(refused, Err(Error::Refused(_))));
    let own = approver(&[50, 40, 1]);
    desk.tx(|l| approve(l, &stored.id, &own, &Extent::default(), &[], None, NOW))
        .unwrap();
}

#[test]
fn the_same_command_waits_once_and_a_full_queue_refuses_with_an_alert() {
    let mut desk = desk();
    let first = desk.ask(new("rm a"));
    let again = desk.tx(|ledger| ask(ledger, new("rm a"), NOW)).unwrap();
    assert!(matches!(again, Asked::Same(stored) if stored.id == first.id));
    desk.ask(new("rm b"));
    desk.ask(new("rm c"));
    let full = desk.tx(|ledger| ask(ledger, new("rm d"), NOW)).unwrap();
    assert_eq!(full, Asked::Full { waiting: 3 });
    let alerts: i64 = desk
        .ledger
        .connection()
        .query_row(
            "SELECT count(*) FROM record WHERE event = 'alert'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(alerts, 1);
}

#[test]
fn requests_and_approvals_lapse() {
    let mut desk = desk();
    let waiting = desk.ask(new("rm a"));
    let approved = desk.ask(new("rm b"));
    desk.approve(&approved.id, &Extent::default()).unwrap();
    assert!(matches!(
        desk.take(&approved.id, &approved.body.binding, NOW + 1801),
        Err(Error::WrongStatus {
            status: "expired",
            ..
        })
    ));
    let lapsed = desk.tx(|ledger| expire(ledger, NOW + 1801)).unwrap();
    assert_eq!(lapsed.len(), 2);
    assert_eq!(desk.status(&waiting.id), RequestStatus::Expired);
    assert!(matches!(
        desk.approve(&waiting.id, &Extent::default()),
        Err(Error::WrongStatus {
            status: "expired",
            ..
        })
    ));
}

#[test]
fn secrets_are_gone_when_a_request_is_over() {
    let mut desk = desk();
    let stored = desk.ask(new("login hunter2"));
    assert_eq!(stored.to_wire(Detail::Short).command, "login hunter2");
    desk.tx(|ledger| reject(ledger, &stored.id, &approver(&[9]), Some("no"), NOW))
        .unwrap();
    let text: String = desk
        .ledger
        .connection()
        .query_row("SELECT body || note FROM request", [], |row| row.get(0))
        .unwrap();
    assert!(!text.contains("hunter2"), "{text}");
    let logged: i64 = desk
        .ledger
        .connection()
        .query_row(
            "SELECT count(*) FROM record WHERE command LIKE '%hunter2%'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(logged, 0);
}

fn here(stored: &Stored) -> Whereabouts {
    Whereabouts {
        uid: 1000,
        kin: kin(1000, &stored.body.binding),
        cwd: (1, 2),
        workspace: b"/w".to_vec(),
        circle: vec![process(77), process(40)],
        session: Some("s".to_owned()),
        client: None,
    }
}

#[test]
fn a_permission_lasts_as_long_as_was_said() {
    let mut desk = desk();
    let stored = desk.ask(new("rm a"));
    let hour = Extent {
        seconds: Some(3600),
        ..Extent::default()
    };
    desk.approve(&stored.id, &hour).unwrap();
    let here = here(&stored);
    let mut uses = |here: &Whereabouts, at| desk.tx(|l| permit::use_one(l, here, at)).unwrap();
    assert!(uses(&here, NOW + 3599).is_some());
    assert!(uses(&here, NOW + 3600).is_none());
    let elsewhere = Whereabouts {
        cwd: (1, 3),
        ..here.clone()
    };
    assert!(uses(&elsewhere, NOW).is_none());
    let somebody = Whereabouts { uid: 1001, ..here };
    assert!(uses(&somebody, NOW).is_none());
}

#[test]
fn a_permission_is_used_up_after_so_many_runs() {
    let mut desk = desk();
    let stored = desk.ask(new("rm a"));
    let thrice = Extent {
        count: Some(3),
        ..Extent::default()
    };
    desk.approve(&stored.id, &thrice).unwrap();
    let here = here(&stored);
    let mut uses = || {
        desk.tx(|l| permit::use_one(l, &here, NOW))
            .unwrap()
            .is_some()
    };
    assert_eq!([uses(), uses(), uses()], [true, true, false]);
    assert_eq!(permit::list(desk.ledger.connection(), NOW).unwrap(), []);
}

#[test]
fn scopes_hold_where_they_were_given() {
    let mut desk = desk();
    let in_workspace = desk.ask(new("rm a"));
    let in_session = desk.ask(new("rm b"));
    let scope = |scope| Extent {
        scope,
        ..Extent::default()
    };
    desk.approve(&in_workspace.id, &scope(Scope::Workspace))
        .unwrap();
    desk.approve(&in_session.id, &scope(Scope::Session))
        .unwrap();
    let mut uses = |here: &Whereabouts| {
        desk.tx(|l| permit::use_one(l, here, NOW))
            .unwrap()
            .is_some()
    };
    let mut place = here(&in_workspace);
    place.cwd = (9, 9);
    assert!(uses(&place));
    place.workspace = b"/other".to_vec();
    assert!(!uses(&place));
    let mut place = here(&in_session);
    (place.cwd, place.workspace) = ((9, 9), b"/other".to_vec());
    assert!(uses(&place));
    // The same claim from another tree of processes is another session.
    place.circle = vec![process(78), process(41)];
    assert!(!uses(&place));

    let grants = permit::list(desk.ledger.connection(), NOW).unwrap();
    assert_eq!(grants.len(), 2);
    let id = grants[0].id.clone();
    desk.tx(|l| permit::revoke(l, &id, "ann")).unwrap();
    assert!(matches!(
        desk.tx(|l| permit::revoke(l, &id, "ann")),
        Err(Error::NotFound { .. })
    ));
}

#[test]
fn always_needs_a_pattern_that_is_narrow_enough() {
    let mut desk = desk();
    let always = Extent {
        scope: Scope::Always,
        ..Extent::default()
    };
    let mut request = new("bash x");
    request.body.always = Some(Proposal {
        pattern: None,
        widest: "bash runs anything".to_owned(),
    });
    let stored = desk.ask(request);
    assert!(matches!(
        desk.approve(&stored.id, &always),
        Err(Error::BadPattern(_))
    ));
    assert_eq!(desk.status(&stored.id), RequestStatus::Pending);
    let mut request = new("git push");
    request.body.always = Some(Proposal {
        pattern: Some("git push".to_owned()),
        widest: "git push".to_owned(),
    });
    let stored = desk.ask(request);
    desk.approve(&stored.id, &always).unwrap();
    let patterns = super::allowlist::list(desk.ledger.connection()).unwrap();
    assert_eq!(patterns.len(), 1);
    assert_eq!(patterns[0].pattern, "git push");
}

#[test]
fn listing_pages_and_clearing() {
    let mut desk = desk();
    let ids: Vec<String> = ["rm a", "rm b", "rm c"]
        .map(|command| desk.ask(new(command)).id)
        .to_vec();
    let page = Page {
        status: Some(RequestStatus::Pending),
        limit: 2,
        before: None,
    };
    let (found, total) = list(desk.ledger.connection(), &page).unwrap();
    assert_eq!(total, 3);
    assert_eq!(
        found.iter().map(|r| &r.id).collect::<Vec<_>>(),
        [&ids[2], &ids[1]]
    );
    let page = Page {
        before: Some(ids[1].clone()),
        status: None,
        ..page
    };
    let (found, _) = list(desk.ledger.connection(), &page).unwrap();
    assert_eq!(found.iter().map(|r| &r.id).collect::<Vec<_>>(), [&ids[0]]);
    assert_eq!(desk.tx(|l| clear(l, NOW, "ann")).unwrap(), 0);
    assert_eq!(desk.tx(|l| clear(l, NOW + 1, "ann")).unwrap(), 3);
}

#[test]
fn only_the_same_question_comes_back_for_an_answer() {
    let mut desk = desk();
    let asked = |jailed: bool| {
        let mut new = new("rm -r build");
        new.body.peer = serde_json::json!({ "jailed": jailed });
        new
    };
    let id = desk.ask(asked(false)).id;
    let found = |desk: &Desk, new: New, at: i64| {
        answered(desk.ledger.connection(), &new, at)
            .unwrap()
            .map(|stored| stored.id)
    };
    assert_eq!(found(&desk, asked(false), NOW), None, "nobody has answered");
    desk.approve(&id, &Extent::default()).unwrap();
    assert_eq!(found(&desk, asked(false), NOW), Some(id.clone()));
    assert_eq!(
        found(&desk, asked(false), NOW + 1800),
        None,
        "it has lapsed"
    );
    assert_eq!(found(&desk, asked(true), NOW), None, "from inside a jail");
    assert_eq!(
        found(&desk, new("rm -r build"), NOW),
        None,
        "from nobody knows where"
    );
    let change: [fn(&mut New); 8] = [
        |new| new.uid = 1001,
        |new| new.body.session = None,
        |new| new.body.agent = Some("a".to_owned()),
        |new| new.body.options = vec!["--net=host".into()],
        |new| new.body.place = Place::Host,
        |new| new.body.workspace = "/".into(),
        |new| new.body.commit = Some("p".to_owned()),
        |new| new.body.holder = Some(process(3)),
    ];
    for (number, change) in change.iter().enumerate() {
        let mut other = asked(false);
        change(&mut other);
        assert_eq!(found(&desk, other, NOW), None, "change {number}");
    }
    let binding = asked(false).body.binding;
    assert!(matches!(
        desk.take(&id, &binding, NOW),
        Ok(Taken::Run { .. })
    ));
    assert_eq!(found(&desk, asked(false), NOW), None, "it was used");

    let id = desk.ask(asked(true)).id;
    desk.approve(&id, &Extent::default()).unwrap();
    assert_eq!(found(&desk, asked(false), NOW), None, "what a jail asked");
    let mut other = asked(true);
    other.body.circle = vec![process(60)];
    assert_eq!(found(&desk, other, NOW), None, "another jail");
    assert_eq!(found(&desk, asked(true), NOW), Some(id));
}

#[test]
fn a_host_is_allowed_for_good_for_one_package_manager() {
    let mut desk = desk();
    let always = Extent {
        scope: Scope::Always,
        ..Extent::default()
    };
    let mut request = new("connect reg.test:443");
    request.body.subject = Subject::Host {
        run: "run_x".to_owned(),
        client: Some("npm".to_owned()),
    };
    let stored = desk.ask(request);
    desk.approve(&stored.id, &always).unwrap();
    let mut place = Whereabouts {
        cwd: (9, 9),
        workspace: b"/other".to_vec(),
        client: Some("npm".to_owned()),
        ..here(&stored)
    };
    let mut uses = |place: &Whereabouts| desk.tx(|l| permit::use_one(l, place, NOW)).unwrap();
    assert!(uses(&place).is_some());
    for other in [Some("pip".to_owned()), None] {
        place.client = other;
        assert!(uses(&place).is_none());
    }
    let known = permit::registries(desk.ledger.connection(), NOW).unwrap();
    let known: Vec<_> = known
        .iter()
        .map(|own| (own.client.as_str(), own.host.to_string()))
        .collect();
    assert_eq!(known, [("npm", "reg.test:443".to_owned())]);
}

#[test]
fn jails_leave_half_of_the_queue_to_others() {
    let mut desk = desk();
    let ask = |desk: &mut Desk, command: &str, jailed: bool| {
        let mut new = new(command);
        new.limit = 6;
        new.body.peer = serde_json::json!({ "jailed": jailed });
        ask(&mut desk.ledger, new, 100).unwrap()
    };
    for number in 0..3 {
        let asked = ask(&mut desk, &format!("in \"jailed\":true {number}"), true);
        assert!(matches!(asked, Asked::New(_)));
    }
    assert_eq!(ask(&mut desk, "in 4", true), Asked::Full { waiting: 3 });
    for number in 0..3 {
        let asked = ask(&mut desk, &format!("out \"jailed\":true {number}"), false);
        assert!(matches!(asked, Asked::New(_)));
    }
    assert_eq!(ask(&mut desk, "out 4", false), Asked::Full { waiting: 6 });
}
