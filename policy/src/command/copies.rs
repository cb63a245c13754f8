//! What a line wrote into a file goes along when the file is copied, moved or linked.

use super::act::Act;
use super::run::is_input;
use crate::classify::given::Given;

/// More files than this are not followed.
const MAX_FILES: usize = 16;

/// `cp a b`, `mv a b`, `ln -s a b`, `install a b`: what is known of `a` is known of `b`.
pub(crate) fn follow(act: &mut Act<'_, '_>) {
    let name = act.draft.program.name.as_str();
    if !matches!(
        name,
        "cp" | "mv" | "ln" | "install" | "link" | "gcp" | "gmv" | "gln"
    ) {
        return;
    }
    let mut sources: Vec<Given> = act.positionals().cloned().collect();
    let folder = act.reading.value("-t").cloned();
    let Some(target) = folder.or_else(|| sources.pop()) else {
        return;
    };
    for source in sources.iter().take(MAX_FILES) {
        let path = act.target(source).resolved.unwrap_or_default();
        let flow = match is_input(&source.text) && source.text != "-" {
            true => Some(act.stdin()),
            false => act.judge.traces.files.get(&path).cloned(),
        };
        let Some(flow) = flow else {
            continue;
        };
        let last = path.rsplit('/').next().unwrap_or_default();
        let inside = format!("{}/{last}", target.text.trim_end_matches('/'));
        // Whether the target is a folder is not known here: both names may lead to it.
        act.wrote(&target.part(&inside), flow.clone());
        act.wrote(&target, flow);
    }
}
