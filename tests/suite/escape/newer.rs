//! Calls that newer kernels have, and old ones with a side that few think of.

use sjail_tests::{Identity, Scene, Test, Verdict, ensure};

use super::attempt::{Control, Plan, attempt, is_held, plain};
use super::peers::Victim;

/// Calls that no list of today's programs needs, by their numbers: the same on every
/// architecture since 5.1.
const NUMBERS: &[(&str, &str)] = &[
    ("memfd_secret", "447"),
    ("process_mrelease", "448"),
    ("set_mempolicy_home_node", "450"),
    ("cachestat", "451"),
    ("map_shadow_stack", "453"),
    ("futex_wake", "454"),
    ("futex_wait", "455"),
    ("futex_requeue", "456"),
    ("statmount", "457"),
    ("listmount", "458"),
    ("lsm_get_self_attr", "459"),
    ("lsm_set_self_attr", "460"),
    ("lsm_list_modules", "461"),
    ("setxattrat", "463"),
    ("getxattrat", "464"),
    ("listxattrat", "465"),
    ("removexattrat", "466"),
    ("open_tree_attr", "467"),
    ("file_getattr", "468"),
    ("file_setattr", "469"),
    ("listns", "470"),
    ("quotactl_fd", "443"),
    ("process_madvise", "440"),
];

pub fn tests() -> Vec<Test> {
    use Control::{Bare, IfHostAllows, Root};
    let mut tests: Vec<Test> = NUMBERS
        .iter()
        .map(|&(name, number)| {
            attempt(&format!("kernel_{name}"), Bare, move |_| {
                Ok(Plan::new(["call", number]))
            })
        })
        .collect();
    for (name, limit, resource, word) in [
        (
            "b18_real_time_by_the_callers_limit",
            "ulimit -r 10",
            "RLIMIT_RTPRIO",
            "real-time",
        ),
        (
            "b18_priority_by_the_callers_limit",
            "ulimit -e 40",
            "RLIMIT_NICE",
            "priority",
        ),
    ] {
        // Who may raise these limits is root, or whom it has let.
        let test = Test::new(name, move |scene| {
            callers_limit(scene, limit, resource, word)
        });
        tests.push(test.only(Identity::Root));
    }
    tests.extend([
        attempt("held_up_by_a_lease", Bare, |scene| {
            scene
                .host("sh")
                .args(["-c", "echo >own-file"])
                .output()?
                .succeeds()?;
            Ok(Plan::new(["lease", "own-file"]))
        }),
        attempt("b16_signals_for_a_process_of_the_host", Bare, |scene| {
            let victim = Victim::new(scene)?;
            Ok(Plan::new(["own-signals".to_string(), victim.pid()]).keep(victim))
        }),
        plain("b18_real_time", IfHostAllows, &["real-time"]),
        plain("b18_higher_priority", IfHostAllows, &["priority"]),
        plain("b18_spared_when_memory_is_short", IfHostAllows, &["spared"]),
        attempt("a_file_that_its_owner_cannot_change", Root, |scene| {
            scene.file("own-file", "")?;
            Ok(Plan::new(["immutable", "own-file"]))
        })
        .only(Identity::Root),
        plain("b14_speaking_as_somebody_else", Root, &["forged-sender"]),
        plain(
            "b16_the_kernels_view_of_a_process",
            IfHostAllows,
            &["set-mm"],
        ),
    ]);
    tests
}

/// A caller who may do more than others with the processor does not pass that on.
fn callers_limit(scene: &Scene, limit: &str, resource: &str, word: &str) -> Verdict {
    scene.needs(&["bash", "setpriv"])?;
    let attacker = scene.attacker()?;
    let run = |before: &str| {
        let line = format!("{limit} && exec {before} {} {word}", attacker.display());
        scene.host("bash").args(["-c", &line]).output()
    };
    if scene.host("bash").args(["-c", limit]).output()?.code() != Some(0) {
        return is_taken_away(scene, resource);
    }
    let sjail = scene.program("sjail");
    is_held(&run(&format!("{} run --no-broker --", sjail.display()))?)?;
    // Without the capability that root has, by the limit alone.
    run("setpriv --bounding-set=-all --inh-caps=-all --")?.stdout_has("OUT")?;
    Ok(())
}

/// Where not even root may raise a limit, as in many a container, no attempt shows whether
/// the jail takes it away; its calls do.
fn is_taken_away(scene: &Scene, resource: &str) -> Verdict {
    scene.needs(&["strace"])?;
    if scene.host("strace").args(["true"]).output()?.code() != Some(0) {
        return scene.skip("not even root may raise this limit here, or watch calls");
    }
    let sjail = scene.program("sjail").display().to_string();
    let watch = ["-f", "-o", "calls", "-e", "trace=prlimit64,setrlimit"];
    let run = [&sjail, "run", "--no-broker", "--", "true"];
    let traced = scene.host("strace").args(watch).args(run).output()?;
    traced.exits(0)?;
    let calls = scene.read("calls")?;
    let sets = |line: &str| line.contains(&format!("{resource}, {{rlim_cur=0, rlim_max=0}}"));
    let is_set = calls
        .lines()
        .any(|line| sets(line) && line.ends_with("= 0"));
    ensure(is_set, || format!("{resource} is not taken away:\n{calls}"))
}
